#pragma once
// How the codes and scales of each quantised type are read. One policy per type, used both where
// rows are read once (dot_rows) and where they are unpacked to panels. Included inside an AVX2
// region.
//
// 32-wide types: two blocks at a time, x and y, whose like halves share a vector:
//   halves(x, y, h): h[0] = codes 0..15 of x | 0..15 of y, h[1] = codes 16..31 of x | of y
// 256-wide types: half a block at a time:
//   codes(block, half, v): v[i] = codes [128 half + 32 i, + 32) in order
// Codes are unsigned; the value is code - offset. Q8_0's alone are signed.

namespace cera::cpu::avx2 {
namespace {

#define CERA_INLINE inline __attribute__((always_inline))
// Before a loop of fixed length, so that its arrays of vectors live in registers.
#if defined(__clang__)
#define CERA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CERA_UNROLL _Pragma("GCC unroll 16")
#endif

CERA_INLINE __m256i load32(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
CERA_INLINE __m128i load16(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
/// x | y as one vector.
CERA_INLINE __m256i load_two16(const std::byte* x, const std::byte* y) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(x)), load16(y), 1);
}
CERA_INLINE __m256i low_nibbles(__m256i v) {
  return _mm256_and_si256(v, _mm256_set1_epi8(15));
}
CERA_INLINE __m256i high_nibbles(__m256i v) {
  return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
}
CERA_INLINE int bits2(const std::byte* from) {
  uint16_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return bits;
}
/// The first 2 or 4 bytes of a vector.
CERA_INLINE __m128i load2(const std::byte* from) {
  return _mm_cvtsi32_si128(bits2(from));
}
CERA_INLINE __m128i load4(const std::byte* from) {
  int32_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return _mm_cvtsi32_si128(bits);
}

/// The scales (and minima) of four blocks.
struct Scales4 {
  __m128 d, m;
};

template <uint32_t bits, bool with_min>
struct Nibbles {
  static constexpr uint32_t high_at = with_min ? 4 : 2;
  static constexpr uint32_t codes_at = high_at + (bits == 5 ? 4 : 0);
  static constexpr uint32_t block_bytes = codes_at + 16;
  static constexpr bool has_min = with_min, is_signed = false;
  static constexpr uint32_t code_bits = bits;
  static constexpr int offset_shift =
      with_min ? 0 : int(bits) - 1;  // offset = 1 << shift, 0 for none

  static CERA_INLINE void halves(const std::byte* x, const std::byte* y, __m256i h[2]) {
    const __m256i v = load_two16(x + codes_at, y + codes_at);
    h[0] = low_nibbles(v);
    h[1] = high_nibbles(v);
    if constexpr (bits == 5) {
      // The 16 bytes from the start of a block hold its fifth bits: bits 0..15 belong to the first
      // half.
      const __m256i start = load_two16(x, y);
      h[0] = _mm256_or_si256(h[0], fifth_bits(start, high_at));
      h[1] = _mm256_or_si256(h[1], fifth_bits(start, high_at + 2));
    }
  }

  /// 16 where bit i of the two bytes at `at` is set, for i = 0..15 in each lane.
  static CERA_INLINE __m256i fifth_bits(__m256i start, uint32_t at) {
    const __m256i ramp = _mm256_set1_epi64x(int64_t(0x8040201008040201));
    const char a = char(at), b = char(at + 1);
    const __m256i spread = _mm256_shuffle_epi8(
        start, _mm256_setr_epi8(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b, a, a, a, a, a, a, a,
                                a, b, b, b, b, b, b, b, b));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, ramp), ramp);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
  }

  static CERA_INLINE Scales4 scales(const std::byte* const b[4]) {
    if constexpr (with_min) {
      const __m128i dm = _mm_unpacklo_epi64(_mm_unpacklo_epi32(load4(b[0]), load4(b[1])),
                                            _mm_unpacklo_epi32(load4(b[2]), load4(b[3])));
      const __m128i apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
      const __m256 both = _mm256_cvtph_ps(_mm_shuffle_epi8(dm, apart));
      return {_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1)};
    } else {
      return {half_scales(b), _mm_setzero_ps()};
    }
  }

  static CERA_INLINE __m128 half_scales(const std::byte* const b[4]) {
    __m128i d = load2(b[0]);
    d = _mm_insert_epi16(d, bits2(b[1]), 1);
    d = _mm_insert_epi16(d, bits2(b[2]), 2);
    return _mm_cvtph_ps(_mm_insert_epi16(d, bits2(b[3]), 3));
  }
};

using Q4_0 = Nibbles<4, false>;
using Q4_1 = Nibbles<4, true>;
using Q5_0 = Nibbles<5, false>;
using Q5_1 = Nibbles<5, true>;

struct Q8_0 {
  static constexpr uint32_t block_bytes = 34;
  static constexpr bool has_min = false, is_signed = true;
  static constexpr uint32_t code_bits = 8;
  static constexpr int offset_shift = 0;

  static CERA_INLINE void halves(const std::byte* x, const std::byte* y, __m256i h[2]) {
    h[0] = load_two16(x + 2, y + 2);
    h[1] = load_two16(x + 18, y + 18);
  }
  static CERA_INLINE Scales4 scales(const std::byte* const b[4]) {
    return {Q4_0::half_scales(b), _mm_setzero_ps()};
  }
};

/// Sub-block scales and minima of Q4_K and Q5_K as bytes: scales 0..7, minima 0..7. `start` is the
/// first 16 bytes of the block: d, dmin, then three words of 6-bit fields (quant/k_quants.cpp).
CERA_INLINE __m128i scale_min_bytes(__m128i start) {
  constexpr char none = -128;
  const __m128i low = _mm_srlv_epi32(
      _mm_shuffle_epi8(start,
                       _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15)),
      _mm_setr_epi32(0, 0, 0, 4));
  const __m128i high =
      _mm_srli_epi32(_mm_shuffle_epi8(start, _mm_setr_epi8(none, none, none, none, 4, 5, 6, 7, none,
                                                           none, none, none, 8, 9, 10, 11)),
                     2);
  const __m128i low_mask = _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
  return _mm_or_si128(_mm_and_si128(low, low_mask), _mm_and_si128(high, _mm_set1_epi8(0x30)));
}

template <uint32_t bits>
struct KNibbles {
  static constexpr uint32_t fifth_at = 16, codes_at = fifth_at + (bits == 5 ? 32 : 0);
  static constexpr uint32_t block_bytes = codes_at + 128;
  static constexpr bool has_min = true;
  static constexpr uint32_t code_bits = bits;
  static constexpr uint32_t sub_block = 32;

  static CERA_INLINE void codes(const std::byte* block, uint32_t half, __m256i v[4]) {
    const std::byte* from = block + codes_at + 64 * half;
    CERA_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const __m256i bytes = load32(from + 32 * i);
      v[2 * i] = low_nibbles(bytes);
      v[2 * i + 1] = high_nibbles(bytes);
    }
    if constexpr (bits == 5) {
      // Bit j of byte i belongs to code i of sub-block j; it goes to bit 4.
      const __m256i fifth = load32(block + fifth_at), bit = _mm256_set1_epi8(16);
      const __m256i f = half == 0 ? _mm256_slli_epi16(fifth, 4) : fifth;
      v[0] = _mm256_or_si256(v[0], _mm256_and_si256(f, bit));
      v[1] = _mm256_or_si256(v[1], _mm256_and_si256(_mm256_srli_epi16(f, 1), bit));
      v[2] = _mm256_or_si256(v[2], _mm256_and_si256(_mm256_srli_epi16(f, 2), bit));
      v[3] = _mm256_or_si256(v[3], _mm256_and_si256(_mm256_srli_epi16(f, 3), bit));
    }
  }
};

using Q4_K = KNibbles<4>;
using Q5_K = KNibbles<5>;

struct Q6_K {
  static constexpr uint32_t high_at = 128, scales_at = 192, d_at = 208, block_bytes = 210;
  static constexpr bool has_min = false;
  static constexpr uint32_t code_bits = 6;
  static constexpr uint32_t sub_block = 16;

  static CERA_INLINE void codes(const std::byte* block, uint32_t half, __m256i v[4]) {
    const __m256i a = load32(block + 64 * half), b = load32(block + 64 * half + 32);
    const __m256i high = load32(block + high_at + 32 * half), pair = _mm256_set1_epi8(0x30);
    v[0] = _mm256_or_si256(low_nibbles(a), _mm256_and_si256(_mm256_slli_epi16(high, 4), pair));
    v[1] = _mm256_or_si256(low_nibbles(b), _mm256_and_si256(_mm256_slli_epi16(high, 2), pair));
    v[2] = _mm256_or_si256(high_nibbles(a), _mm256_and_si256(high, pair));
    v[3] = _mm256_or_si256(high_nibbles(b), _mm256_and_si256(_mm256_srli_epi16(high, 2), pair));
  }
};

}  // namespace
}  // namespace cera::cpu::avx2
