// Q4_K, Q5_K, Q6_K: super-blocks of 256 values whose sub-block scales are small integers.
//
//   Q4_K, Q5_K   d, dmin (f16) | 12 bytes: 8 pairs (scale, minimum) of 6 bits | [32 bytes: fifth
//   bits] |
//                128 bytes: nibbles. 8 sub-blocks of 32; value = (d * scale) * q - (dmin * minimum)
//   Q6_K         128 bytes: low nibbles | 64 bytes: high bit pairs | 16 x int8 scales | d (f16).
//                16 sub-blocks of 16; value = (d * scale) * (q - 32)

#include <array>

#include "quant/codes.h"
#include "quant/families.h"

namespace cera::quant {
namespace {

constexpr size_t block_size = 256;

struct ScaleMin {
  int scale, min;
};

// Pairs 0..3 lie in the low six bits of bytes 0..3 (scale) and 4..7 (minimum). Pairs 4..7 keep
// their low nibbles in bytes 8..11 and their two high bits on top of the bytes of pairs 0..3.
ScaleMin load_scale_min(const std::byte* from, size_t j) {
  const auto byte = [from](size_t i) { return int(from[i]); };
  if (j < 4) return {byte(j) & 63, byte(j + 4) & 63};
  const int low = byte(j + 4);
  return {(low & 15) | (byte(j - 4) >> 6) << 4, low >> 4 | (byte(j) >> 6) << 4};
}

void store_scale_min(std::byte* to, size_t j, ScaleMin value) {
  if (j < 4) {
    to[j] |= std::byte(value.scale);
    to[j + 4] |= std::byte(value.min);
  } else {
    to[j + 4] |= std::byte((value.scale & 15) | (value.min & 15) << 4);
    to[j - 4] |= std::byte(value.scale >> 4 << 6);
    to[j] |= std::byte(value.min >> 4 << 6);
  }
}

template <int bits>
struct WithMinimum {
  static constexpr size_t scales_at = 4, fifth_at = 16;
  static constexpr size_t codes_at = fifth_at + (bits == 5 ? 32 : 0);
  static constexpr size_t block_bytes = codes_at + 128;
  static constexpr int largest = (1 << bits) - 1;

  static void unpack(const std::byte* from, float* to, size_t n) {
    for (size_t b = 0; b < n / block_size; ++b, from += block_bytes) {
      const float d = load_f16(from), dmin = load_f16(from + 2);
      for (size_t j = 0; j < 8; ++j) {
        const ScaleMin pair = load_scale_min(from + scales_at, j);
        const float scale = d * float(pair.scale), min = dmin * float(pair.min);
        for (size_t i = 0; i < 32; ++i) {
          const uint32_t byte = uint32_t(from[codes_at + j / 2 * 32 + i]);
          uint32_t q = j % 2 == 0 ? byte & 15 : byte >> 4;
          if constexpr (bits == 5) q |= (uint32_t(from[fifth_at + i]) >> j & 1) << 4;
          *to++ = scale * float(q) - min;
        }
      }
    }
  }

  static void pack(const float* from, std::byte* to, size_t n) {
    for (size_t b = 0; b < n / block_size; ++b, from += block_size, to += block_bytes) {
      std::memset(to, 0, block_bytes);
      // Zero is always in range, because a stored minimum cannot be positive.
      std::array<float, 8> scale, min;
      for (size_t j = 0; j < 8; ++j) {
        const Range range = range_of(from + 32 * j, 32);
        min[j] = std::max(0.0f, -range.low);
        scale[j] = (std::max(0.0f, range.high) + min[j]) / float(largest);
      }
      const float d = store_scale(to, *std::max_element(scale.begin(), scale.end()) / 63.0f);
      const float dmin = store_scale(to + 2, *std::max_element(min.begin(), min.end()) / 63.0f);
      for (size_t j = 0; j < 8; ++j) {
        const ScaleMin pair{nearest(ratio(scale[j], d), 0, 63),
                            nearest(ratio(min[j], dmin), 0, 63)};
        store_scale_min(to + scales_at, j, pair);
        pack_codes(from + 32 * j, d * float(pair.scale), dmin * float(pair.min), j, to);
      }
    }
  }

  static void pack_codes(const float* from, float scale, float min, size_t j, std::byte* to) {
    for (size_t i = 0; i < 32; ++i) {
      const uint32_t q = uint32_t(nearest(ratio(from[i] + min, scale), 0, largest));
      to[codes_at + j / 2 * 32 + i] |= std::byte((q & 15) << (j % 2 * 4));
      if constexpr (bits == 5) to[fifth_at + i] |= std::byte(q >> 4 << j);
    }
  }
};

struct Q6 {
  static constexpr size_t high_at = 128, scales_at = 192, d_at = 208, block_bytes = 210;

  /// Where the code of value i lies: byte and shift of its low nibble and of its high bit pair.
  struct Place {
    size_t low_byte, high_byte;
    uint32_t low_shift, high_shift;
  };
  static constexpr Place place(size_t i) {
    const size_t half = i / 128, group = i % 128 / 32, lane = i % 32;
    return {64 * half + group % 2 * 32 + lane, high_at + 32 * half + lane, uint32_t(group / 2 * 4),
            uint32_t(group * 2)};
  }

  static void unpack(const std::byte* from, float* to, size_t n) {
    for (size_t b = 0; b < n / block_size; ++b, from += block_bytes, to += block_size) {
      const float d = load_f16(from + d_at);
      for (size_t i = 0; i < block_size; ++i) {
        const Place at = place(i);
        const uint32_t low = uint32_t(from[at.low_byte]) >> at.low_shift & 15;
        const uint32_t high = uint32_t(from[at.high_byte]) >> at.high_shift & 3;
        const float scale = d * float(int8_t(from[scales_at + i / 16]));
        to[i] = scale * float(int(low | high << 4) - 32);
      }
    }
  }

  static void pack(const float* from, std::byte* to, size_t n) {
    for (size_t b = 0; b < n / block_size; ++b, from += block_size, to += block_bytes) {
      std::memset(to, 0, block_bytes);
      // The signed extreme of each sub-block becomes code 0 (-32).
      std::array<float, 16> scale;
      for (size_t j = 0; j < 16; ++j) scale[j] = extreme_of(from + 16 * j, 16) / -32.0f;
      const float d = store_scale(to + d_at, extreme_of(scale.data(), 16) / -128.0f);
      for (size_t j = 0; j < 16; ++j)
        to[scales_at + j] = std::byte(nearest(ratio(scale[j], d), -128, 127));
      for (size_t i = 0; i < block_size; ++i) {
        const float step = d * float(int8_t(to[scales_at + i / 16]));
        const uint32_t q = uint32_t(nearest(ratio(from[i], step), -32, 31) + 32);
        const Place at = place(i);
        to[at.low_byte] |= std::byte((q & 15) << at.low_shift);
        to[at.high_byte] |= std::byte(q >> 4 << at.high_shift);
      }
    }
  }
};

constexpr TypeInfo rows[] = {
    {TensorType::q4_k, "Q4_K", block_size, WithMinimum<4>::block_bytes, WithMinimum<4>::unpack,
     WithMinimum<4>::pack},
    {TensorType::q5_k, "Q5_K", block_size, WithMinimum<5>::block_bytes, WithMinimum<5>::unpack,
     WithMinimum<5>::pack},
    {TensorType::q6_k, "Q6_K", block_size, Q6::block_bytes, Q6::unpack, Q6::pack},
};

}  // namespace

std::span<const TypeInfo> k_quant_types() {
  return rows;
}

}  // namespace cera::quant
