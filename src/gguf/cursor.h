#pragma once
// Bounds-checked reading of little-endian values, and the account of memory that a file may make us
// allocate.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cera::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF values are read in place");

/// Text from a file, for a message: cut to 64 bytes, with anything unprintable as \xNN.
std::string quoted(std::string_view text);

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& label, uint64_t budget_bytes)
      : bytes_(bytes), label_(label), budget_(budget_bytes) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  const std::string& label() const { return label_; }

  /// `what` names the value in the message.
  template <class T>
  Result<T> read(std::string_view what) {
    CERA_CHECK(need(sizeof(T), what));
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  /// A u64 length and that many bytes of this file.
  Result<std::string_view> read_string(std::string_view what);

  Result<void> need(uint64_t n_bytes, std::string_view what) const {
    if (n_bytes > left()) return too_short(n_bytes, what);
    return {};
  }

  /// need() has vouched for the bytes.
  const std::byte* take(uint64_t n_bytes) {
    const std::byte* start = bytes_.data() + at_;
    at_ += n_bytes;
    return start;
  }

  /// Charges memory that the caller is about to allocate; an error when the file asks for too much
  /// of it.
  Result<void> charge(uint64_t n_bytes, std::string_view what) {
    if (n_bytes > budget_) return too_large(what);
    budget_ -= n_bytes;
    return {};
  }

  template <class... Args>
  std::unexpected<Error> malformed(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::malformed, label_, "{}",
                fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::unexpected<Error> too_short(uint64_t n_bytes, std::string_view what) const;
  std::unexpected<Error> too_large(std::string_view what) const;

  std::span<const std::byte> bytes_;
  const std::string& label_;
  uint64_t at_ = 0;
  uint64_t budget_;
};

}  // namespace cera::gguf
