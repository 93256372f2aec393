#pragma once
// One GGUF file's header, checked from end to end.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/gguf.h"

namespace cera::gguf {

inline constexpr uint64_t default_alignment = 32, smallest_alignment = 8,
                          largest_alignment = 1u << 20;
inline constexpr uint64_t longest_name_bytes = 65536;  // of a key or tensor
inline constexpr std::string_view alignment_key = "general.alignment";

struct Part {
  uint32_t version = 0;
  std::map<std::string, Entry, std::less<>> metadata;
  std::vector<TensorInfo> tensors;  // `data` points into the bytes parsed
};

/// What parsing a file of this size may allocate: 4 times the size and 64 MiB. A caller that holds
/// the file in memory of its own subtracts that.
uint64_t memory_budget(uint64_t file_bytes);

/// Every tensor returned lies inside `bytes`, and none overlaps another of this part.
Result<Part> parse(std::span<const std::byte> bytes, const std::string& label,
                   uint64_t budget_bytes);

/// Elements and bytes of a tensor; an error names the rule that type and dimensions break.
struct TensorSize {
  uint64_t elements, bytes;
};
Result<TensorSize> tensor_size(uint32_t type_id, std::span<const uint64_t> dimensions);

/// Non-empty UTF-8 of bounded length.
Result<void> check_name(std::string_view name, std::string_view what);

bool is_valid_alignment(uint64_t alignment);

}  // namespace cera::gguf
