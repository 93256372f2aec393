// For check_writer.py: `write FILE` writes the sample file, `read FILE` prints what a file holds, a
// line each.

#include <bit>
#include <cstdio>
#include <string>

#include "gguf/sample.h"

namespace {

using namespace cera;
using namespace cera::gguf;

std::string hex(const std::byte* bytes, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += fmt::format("{:02x}", int(bytes[i]));
  return out;
}

std::string shown(uint64_t value) {
  return fmt::format("{}", value);
}
std::string shown(int64_t value) {
  return fmt::format("{}", value);
}
std::string shown(double value) {
  return fmt::format("{:016x}", std::bit_cast<uint64_t>(value));
}
std::string shown(bool value) {
  return value ? "true" : "false";
}
std::string shown(const std::string& text) {
  return "'" + hex(reinterpret_cast<const std::byte*>(text.data()), text.size());
}
std::string shown(const std::shared_ptr<const Array>& array) {
  std::string out = fmt::format("{}[", value_type_name(array->element_type));
  std::visit(
      [&out](const auto& elements) {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        for (const Element& element : elements) out += shown(element) + ",";
      },
      array->values);
  return out + "]";
}

int print(const File& file) {
  for (const auto& [key, entry] : file.metadata())
    std::printf("%s %s %s\n", key.c_str(), std::string(value_type_name(entry.type)).c_str(),
                std::visit([](const auto& value) { return shown(value); }, entry.value).c_str());
  for (const TensorInfo& tensor : file.tensors()) {
    std::string shape;
    for (const uint64_t dimension : tensor.dimensions) shape += fmt::format("{},", dimension);
    std::printf("tensor %s %s %s %llu %s\n", tensor.name.c_str(),
                std::string(gguf_type_name(tensor.type_id)).c_str(), shape.c_str(),
                static_cast<unsigned long long>(tensor.file_offset),
                hex(tensor.data, tensor.size_bytes).c_str());
  }
  return 0;
}

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  if (mode == "write") {
    Writer writer;
    SampleTensors tensors;
    add_sample_metadata(writer);
    tensors.add_to(writer);
    const auto written = writer.write(argv[2]);
    return written ? 0 : complain(written.error());
  }
  if (mode == "read") {
    const auto file = File::open(argv[2]);
    return file ? print(**file) : complain(file.error());
  }
  std::fputs("usage: lines write|read FILE\n", stderr);
  return 2;
}
