#pragma once
// Names of split files: NAME-00001-of-00003.gguf.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cera::gguf {

struct SplitName {
  std::string prefix;
  uint32_t number, count;  // 1 <= number <= count
};

std::optional<SplitName> parse_split_name(std::string_view path);
std::string split_path(std::string_view prefix, uint64_t number, uint64_t count);

}  // namespace cera::gguf
