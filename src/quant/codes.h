#pragma once
// Helpers shared by the block formats.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

namespace cera::quant {

inline uint16_t load_u16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline uint32_t load_u32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline float load_f16(const std::byte* from) {
  return f16_to_f32(load_u16(from));
}

/// Writes a scale as f16 and gives back what was written. Scales beyond f16 saturate and NaN
/// becomes 0, so that a block never unpacks to a non-finite value.
inline float store_scale(std::byte* to, float scale) {
  constexpr float largest = 65504.0f;
  const float finite = scale != scale ? 0.0f : std::clamp(scale, -largest, largest);
  const uint16_t half = f32_to_f16(finite);
  store(to, half);
  return f16_to_f32(half);
}

/// Nearest integer in [low, high], ties to even; NaN gives low.
inline int nearest(float value, int low, int high) {
  if (!(value > float(low))) return low;
  if (value >= float(high)) return high;
  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the float.
  return int(std::bit_cast<uint32_t>(value + 0x1.8p23f) - 0x4b400000u);
}

/// a / b, and 0 where b is 0.
inline float ratio(float a, float b) {
  return b == 0.0f ? 0.0f : a / b;
}

struct Range {
  float low, high;
};

/// Smallest and largest value; NaN is skipped, and no value at all gives 0.
inline Range range_of(const float* x, size_t n) {
  Range range{INFINITY, -INFINITY};
  for (size_t i = 0; i < n; ++i) {
    if (x[i] < range.low) range.low = x[i];
    if (x[i] > range.high) range.high = x[i];
  }
  return range.low <= range.high ? range : Range{0.0f, 0.0f};
}

/// The value of largest magnitude, with its sign.
inline float extreme_of(const float* x, size_t n) {
  const Range range = range_of(x, n);
  return -range.low > range.high ? range.low : range.high;
}

}  // namespace cera::quant
