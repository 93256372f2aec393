#pragma once
// What one rendering may cost. Work is counted in steps (about one per evaluated node or 64 bytes
// moved), memory in bytes that values hold at the same time.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "text/jinja/failure.h"

namespace cera::text::jinja {

class Meter {
 public:
  Meter(uint64_t max_steps, size_t max_bytes, size_t max_text)
      : max_text_bytes(max_text), max_steps_(max_steps), max_bytes_(max_bytes) {}

  void step(uint64_t n = 1) {
    steps_ += n;
    if (steps_ > max_steps_) raise("the template needs more than {} steps", max_steps_);
  }
  /// Moving or scanning so many bytes.
  void work(size_t n_bytes) { step(1 + n_bytes / 64); }

  void take(size_t n_bytes) {
    if (n_bytes > max_bytes_ - bytes_) {
      raise("the template's values need more than {} bytes", max_bytes_);
    }
    bytes_ += n_bytes;
  }
  void give(size_t n_bytes) noexcept { bytes_ -= n_bytes; }

  const size_t max_text_bytes;  // of any one string, the output included

 private:
  uint64_t max_steps_;
  uint64_t steps_ = 0;
  size_t max_bytes_;
  size_t bytes_ = 0;
};

/// Bytes taken from a meter until this goes away. Without a meter (inputs, literals) it counts
/// nothing.
class Account {
 public:
  Account() = default;
  explicit Account(Meter* meter) : meter_(meter) {}
  Account(Account&& other) noexcept
      : meter_(std::exchange(other.meter_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Account& operator=(Account&&) = delete;
  ~Account() {
    if (meter_) meter_->give(bytes_);
  }

  void take(size_t n_bytes) {
    if (!meter_) return;
    meter_->take(n_bytes);
    bytes_ += n_bytes;
  }

 private:
  Meter* meter_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cera::text::jinja
