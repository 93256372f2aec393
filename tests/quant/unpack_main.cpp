// Unpacks blocks of one type from stdin to f32 on stdout, for check_unpack.py.

#include <cstdio>
#include <string_view>
#include <vector>

#include "quant/types.h"

int main(int argc, char** argv) {
  const cera::TypeInfo* type = nullptr;
  for (const cera::TypeInfo& info : cera::all_types())
    if (argc == 2 && info.name == argv[1]) type = &info;
  if (!type) {
    std::fputs("usage: unpack TYPE < blocks > floats\n", stderr);
    return 2;
  }
  std::vector<std::byte> block(type->block_bytes);
  std::vector<float> values(type->block_size);
  while (std::fread(block.data(), 1, block.size(), stdin) == block.size()) {
    type->unpack(block.data(), values.data(), values.size());
    std::fwrite(values.data(), sizeof(float), values.size(), stdout);
  }
  return 0;
}
