// First inputs for fuzz_gguf: seeds_gguf FOLDER

#include <cstdio>
#include <string>

#include "base/atomic_file.h"
#include "gguf/raw_file.h"
#include "gguf/sample.h"

int main(int argc, char** argv) {
  using namespace cera;
  using namespace cera::gguf;
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  Writer metadata, tensors;
  SampleTensors samples;
  add_sample_metadata(metadata);
  samples.add_to(tensors);
  const Result<void> results[] = {
      metadata.write(folder + "/metadata"),
      tensors.write(folder + "/tensors"),
      write_file_atomically(folder + "/all",
                            std::array{std::span<const std::byte>(sample_bytes())}),
      write_file_atomically(folder + "/empty", std::array{RawFile(0, 0).bytes()}),
  };
  for (const auto& result : results) {
    if (result) continue;
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    return 1;
  }
  return 0;
}
