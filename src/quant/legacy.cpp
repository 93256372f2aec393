// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: blocks of 32 values with one f16 scale d.
//
//   Q4_0, Q5_0   d                | [fifth bits] | 16 bytes   value = d * (q - half)
//   Q4_1, Q5_1   d, m             | [fifth bits] | 16 bytes   value = d * q + m
//   Q8_0         d                | 32 x int8                 value = q * d
//
// Byte j of the 16 holds value j in its low nibble and value j + 16 in its high nibble; bit i of
// the fifth bits (a 32-bit word) is bit 4 of value i.

#include "quant/codes.h"
#include "quant/families.h"

namespace cera::quant {
namespace {

constexpr size_t block_size = 32;

template <int bits, bool has_min>
struct Nibbles {
  static constexpr size_t high_at = has_min ? 4 : 2;
  static constexpr size_t codes_at = high_at + (bits == 5 ? 4 : 0);
  static constexpr size_t block_bytes = codes_at + 16;
  static constexpr int half = 1 << (bits - 1);
  static constexpr int largest = (1 << bits) - 1;

  static void unpack(const std::byte* from, float* to, size_t n) {
    for (size_t b = 0; b < n / block_size; ++b, from += block_bytes, to += block_size) {
      const float d = load_f16(from);
      const float m = has_min ? load_f16(from + 2) : 0.0f;
      const uint32_t fifth = bits == 5 ? load_u32(from + high_at) : 0;
      for (uint32_t i = 0; i < block_size; ++i) {
        const uint32_t byte = uint32_t(from[codes_at + i % 16]);
        const int q = int((i < 16 ? byte & 15 : byte >> 4) | ((fifth >> i) & 1) << 4);
        to[i] = has_min ? d * float(q) + m : d * float(q - half);
      }
    }
  }

  static void pack(const float* from, std::byte* to, size_t n) {
    for (size_t b = 0; b < n / block_size; ++b, from += block_size, to += block_bytes) {
      float d, m = 0.0f;
      if constexpr (has_min) {
        const Range range = range_of(from, block_size);
        m = store_scale(to + 2, range.low);
        d = store_scale(to, (range.high - m) / float(largest));
      } else {
        // The signed extreme becomes code 0, whose magnitude is the larger one.
        d = store_scale(to, extreme_of(from, block_size) / float(-half));
      }
      uint32_t fifth = 0;
      std::memset(to + codes_at, 0, 16);
      for (uint32_t i = 0; i < block_size; ++i) {
        const float scaled = ratio(from[i] - m, d);
        const uint32_t q = has_min ? uint32_t(nearest(scaled, 0, largest))
                                   : uint32_t(nearest(scaled, -half, half - 1) + half);
        to[codes_at + i % 16] |= std::byte((q & 15) << (i < 16 ? 0 : 4));
        fifth |= (q >> 4) << i;
      }
      if constexpr (bits == 5) store(to + high_at, fifth);
    }
  }
};

constexpr size_t q8_bytes = 34;

void unpack_q8(const std::byte* from, float* to, size_t n) {
  for (size_t b = 0; b < n / block_size; ++b, from += q8_bytes, to += block_size) {
    const float d = load_f16(from);
    for (size_t i = 0; i < block_size; ++i) to[i] = float(int8_t(from[2 + i])) * d;
  }
}

void pack_q8(const float* from, std::byte* to, size_t n) {
  for (size_t b = 0; b < n / block_size; ++b, from += block_size, to += q8_bytes) {
    const float d = store_scale(to, std::fabs(extreme_of(from, block_size)) / 127.0f);
    for (size_t i = 0; i < block_size; ++i)
      to[2 + i] = std::byte(nearest(ratio(from[i], d), -127, 127));
  }
}

template <int bits, bool has_min>
constexpr TypeInfo row(TensorType type, std::string_view name) {
  using Format = Nibbles<bits, has_min>;
  return {type, name, block_size, Format::block_bytes, Format::unpack, Format::pack};
}

constexpr TypeInfo rows[] = {
    row<4, false>(TensorType::q4_0, "Q4_0"),
    row<4, true>(TensorType::q4_1, "Q4_1"),
    row<5, false>(TensorType::q5_0, "Q5_0"),
    row<5, true>(TensorType::q5_1, "Q5_1"),
    {TensorType::q8_0, "Q8_0", block_size, q8_bytes, unpack_q8, pack_q8},
};

}  // namespace

std::span<const TypeInfo> legacy_types() {
  return rows;
}

}  // namespace cera::quant
