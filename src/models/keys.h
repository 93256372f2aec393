#pragma once
// The metadata of one architecture ("llama.*"), typed, with a memory of what was read: a key that
// nobody reads may change the model, so it is reported.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/gguf.h"

namespace cera {

/// Names are given without the architecture's prefix: uint("block_count") reads
/// "llama.block_count".
class KeyReader {
 public:
  KeyReader(const gguf::File& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  const gguf::File& file() const { return file_; }
  std::string full_name(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return file_.has(full_name(key)); }

  /// Required; must fit 32 bits.
  Result<uint32_t> uint(std::string_view key);
  Result<uint32_t> uint_or(std::string_view key, uint32_t fallback);
  /// Required; must be finite.
  Result<double> number(std::string_view key);
  Result<double> number_or(std::string_view key, double fallback);
  Result<std::string> string_or(std::string_view key, std::string fallback);
  /// One value for all layers, or an array of exactly n_layers.
  Result<std::vector<uint32_t>> per_layer(std::string_view key, uint32_t n_layers);

  /// True when the key is absent or holds only `neutral` (a number, or a boolean as 0 and 1).
  bool is_neutral(std::string_view key, double neutral);

  /// Full names under the prefix that were never asked for.
  std::vector<std::string> unread() const;

  /// An error about a key, which it names: `return keys.wrong(ErrorCode::malformed, "block_count",
  /// "is 0");`
  template <class... Args>
  std::unexpected<Error> wrong(ErrorCode code, std::string_view key,
                               fmt::format_string<Args...> format, Args&&... args) const {
    return wrong_key(code, full_name(key), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string note(std::string_view key);
  std::unexpected<Error> wrong_key(ErrorCode code, std::string_view name,
                                   std::string message) const;
  Result<uint32_t> narrow(uint64_t value, std::string_view name) const;

  const gguf::File& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace cera
