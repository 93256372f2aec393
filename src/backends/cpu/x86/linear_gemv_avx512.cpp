// Dot products of packed weight rows, read once where they lie, with one activation row (or very
// few): linear_gemv_avx2.cpp with wider vectors, byte permutations and mask registers. Q8_0 stays
// with AVX2, which already outruns memory.

#if defined(__x86_64__)
#include "backends/cpu/x86/avx512_intrinsics.h"

#include "backends/cpu/x86/linear_avx512.h"

#include "backends/cpu/x86/avx512_begin.h"
#include "backends/cpu/x86/linear_codes_avx2.h"

namespace cera::cpu::avx512 {
namespace {

using namespace avx2;

constexpr uint32_t prefetch_bytes = 2048;

CERA_INLINE void prefetch(const std::byte* at, uint32_t n_bytes) {
  CERA_UNROLL
  for (uint32_t i = 0; i < n_bytes; i += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + prefetch_bytes + i), _MM_HINT_T0);
}

CERA_INLINE __m512i load64(const void* from) {
  return _mm512_loadu_si512(from);
}
CERA_INLINE __m512i both(__m256i v) {
  return _mm512_broadcast_i64x4(v);
}
CERA_INLINE __m512i pair(const void* low, const void* high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(load32(low)), load32(high), 1);
}

// ---- 32-wide types with nibbles: four blocks, 72 to 96 bytes, are two vectors, from which one
// permutation takes what belongs together. Lanes hold blocks 0 2 1 3, as RowQuad does. ----

struct Bytes64 {
  alignas(64) uint8_t at[64];
};

/// Where byte i % 16 of the 16 bytes at `offset` of its lane's block lies.
template <class F>
constexpr Bytes64 codes_index() {
  constexpr uint32_t block[4] = {0, 2, 1, 3};
  Bytes64 index{};
  for (uint32_t i = 0; i < 64; ++i)
    index.at[i] = uint8_t(block[i / 16] * F::block_bytes + F::codes_at + i % 16);
  return index;
}

/// Where the byte lies that holds the fifth bit of code 16 half + i % 16 of its lane's block.
template <class F>
constexpr Bytes64 fifth_index(uint32_t half) {
  constexpr uint32_t block[4] = {0, 2, 1, 3};
  Bytes64 index{};
  for (uint32_t i = 0; i < 64; ++i)
    index.at[i] = uint8_t(block[i / 16] * F::block_bytes + F::high_at + 2 * half + i % 16 / 8);
  return index;
}

/// d of blocks 0 1 2 3, then m.
template <class F>
constexpr Bytes64 scales_index() {
  Bytes64 index{};
  for (uint32_t i = 0; i < 16; ++i)
    index.at[i] = uint8_t(i % 8 / 2 * F::block_bytes + (F::has_min ? i / 8 * 2 : 0) + i % 2);
  return index;
}

template <class F>
struct Quad {
  static constexpr Bytes64 codes = codes_index<F>(), scales = scales_index<F>();
  static constexpr Bytes64 fifth[2] = {fifth_index<F>(0), fifth_index<F>(1)};
  __m512i low, high;

  CERA_INLINE explicit Quad(const std::byte* blocks)
      : low(load64(blocks)),
        high(_mm512_maskz_loadu_epi8((uint64_t{1} << (4 * F::block_bytes - 64)) - 1, blocks + 64)) {
  }
  /// The first n blocks only; zeros stand for the others.
  CERA_INLINE Quad(const std::byte* blocks, uint32_t n) {
    const uint32_t bytes = n * F::block_bytes;
    const uint64_t all = ~uint64_t{0};
    low = _mm512_maskz_loadu_epi8(bytes >= 64 ? all : all >> (64 - bytes), blocks);
    high = _mm512_maskz_loadu_epi8(bytes > 64 ? all >> (128 - bytes) : 0, blocks + 64);
  }

  CERA_INLINE __m512i take(const Bytes64& index) const {
    return _mm512_permutex2var_epi8(low, load64(index.at), high);
  }
  CERA_INLINE __m512i with_fifth(__m512i nibbles, uint32_t half) const {
    if constexpr (F::code_bits == 5) {
      const __m512i ramp = _mm512_set1_epi64(int64_t(0x8040201008040201));
      const __mmask64 set = _mm512_test_epi8_mask(take(fifth[half]), ramp);
      return _mm512_mask_add_epi8(nibbles, set, nibbles, _mm512_set1_epi8(16));
    }
    return nibbles;
  }
  /// Exact sums of code * q of the four blocks.
  CERA_INLINE __m128i dot(const RowQuad& x) const {
    const __m512i v = take(codes), mask = _mm512_set1_epi8(15);
    const __m512i h0 = with_fifth(_mm512_and_si512(v, mask), 0);
    const __m512i h1 = with_fifth(_mm512_and_si512(_mm512_srli_epi16(v, 4), mask), 1);
    __m512i acc = _mm512_dpbusd_epi32(_mm512_setzero_si512(), h0, load64(x.q[0]));
    acc = _mm512_dpbusd_epi32(acc, h1, load64(x.q[1]));
    acc = _mm512_add_epi32(acc, _mm512_shuffle_epi32(acc, _MM_PERM_BADC));
    acc = _mm512_add_epi32(acc, _mm512_shuffle_epi32(acc, _MM_PERM_CDAB));
    const __m512i order = _mm512_castsi128_si512(_mm_setr_epi32(0, 8, 4, 12));
    return _mm512_castsi512_si128(_mm512_permutexvar_epi32(order, acc));
  }
  CERA_INLINE __m128 add_to(__m128 s, const RowQuad& x) const {
    __m128i sums = dot(x);
    if constexpr (F::offset_shift > 0)
      sums = _mm_sub_epi32(sums, _mm_slli_epi32(load16(x.sums), F::offset_shift));
    const __m128i halves = _mm512_castsi512_si128(take(scales));
    const __m128 d = _mm_mul_ps(_mm_cvtph_ps(halves), _mm_loadu_ps(x.d));
    s = _mm_fmadd_ps(d, _mm_cvtepi32_ps(sums), s);
    if constexpr (F::has_min) {
      const __m128 m = _mm_cvtph_ps(_mm_unpackhi_epi64(halves, halves));
      s = _mm_fmadd_ps(m, _mm_loadu_ps(x.d_sums), s);
    }
    return s;
  }
};

template <class F>
CERA_INLINE float dot_quad_row(const std::byte* row, uint32_t n_blocks, const RowQuad* x) {
  __m128 s = _mm_setzero_ps();
  for (uint32_t i = 0; i < n_blocks / 4; ++i, row += 4 * F::block_bytes, ++x) {
    prefetch(row, 4 * F::block_bytes);
    s = Quad<F>(row).add_to(s, *x);
  }
  if (const uint32_t n = n_blocks % 4; n != 0)
    s = _mm_mask_mov_ps(s, __mmask8((1u << n) - 1), Quad<F>(row, n).add_to(s, *x));
  s = _mm_add_ps(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehl_ps(s, s)));
}

// ---- K-quants ----

/// For every 16-bit lane of a vector the number of the sub-block whose scale it takes.
struct Words32 {
  alignas(64) uint16_t at[32];
};

/// Runs of n lanes: first, first + step, first + 2 step ...
constexpr Words32 scale_index(uint32_t n, uint32_t first, uint32_t step) {
  Words32 index{};
  for (uint32_t i = 0; i < 32; ++i) index.at[i] = uint16_t(first + i / n * step);
  return index;
}

CERA_INLINE __m512i pick(__m256i words, const Words32& index) {
  return _mm512_permutexvar_epi16(load64(index.at), _mm512_castsi256_si512(words));
}

/// acc + scale * code * q over 64 codes.
CERA_INLINE __m512i add_products(__m512i acc, __m512i codes, __m512i q, __m512i scales) {
  return _mm512_dpwssd_epi32(acc, _mm512_maddubs_epi16(codes, q), scales);
}

CERA_INLINE __m128i fold(__m512i v) {
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/// The sum of a's lanes, then that of b's.
CERA_INLINE __m128i sum_both(__m128i a, __m128i b) {
  const __m128i t = _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
  return _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
}

template <uint32_t bits>
struct Super {
  using F = KNibbles<bits>;
  // Even sub-blocks lie in low nibbles, odd ones in high nibbles.
  static constexpr Words32 index[4] = {scale_index(16, 0, 2), scale_index(16, 1, 2),
                                       scale_index(16, 4, 2), scale_index(16, 5, 2)};

  static CERA_INLINE __m512i with_fifth(__m512i nibbles, __m512i fifth, uint32_t sub_block) {
    if constexpr (bits == 5) {
      const __m512i bit = _mm512_inserti64x4(_mm512_set1_epi8(char(1 << sub_block)),
                                             _mm256_set1_epi8(char(4 << sub_block)), 1);
      const __mmask64 set = _mm512_test_epi8_mask(fifth, bit);
      return _mm512_mask_add_epi8(nibbles, set, nibbles, _mm512_set1_epi8(16));
    }
    (void)fifth, (void)sub_block;
    return nibbles;
  }

  static CERA_INLINE float add(const std::byte* block, const RowSuper& x, float s) {
    const __m128i start = load16(block);
    const __m256i words = _mm256_cvtepu8_epi16(scale_min_bytes(start));
    const __m512i fifth = bits == 5 ? both(load32(block + F::fifth_at)) : _mm512_setzero_si512();
    __m512i acc = _mm512_setzero_si512();
    CERA_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      const __m512i v = load64(block + F::codes_at + 64 * half), mask = _mm512_set1_epi8(15);
      const __m512i even = with_fifth(_mm512_and_si512(v, mask), fifth, 4 * half);
      const __m512i odd =
          with_fifth(_mm512_and_si512(_mm512_srli_epi16(v, 4), mask), fifth, 4 * half + 1);
      const int8_t* q = x.q + 128 * half;
      acc = add_products(acc, even, pair(q, q + 64), pick(words, index[2 * half]));
      acc = add_products(acc, odd, pair(q + 32, q + 96), pick(words, index[2 * half + 1]));
    }
    const __m128i mins = _mm_madd_epi16(_mm256_extracti128_si256(words, 1), load16(x.sums32));
    const __m128 f = _mm_cvtepi32_ps(sum_both(fold(acc), mins));
    const __m128 d = _mm_mul_ps(_mm_cvtph_ps(start), _mm_set1_ps(x.d));
    __m128 result = _mm_fmadd_ss(d, f, _mm_set_ss(s));
    result = _mm_fnmadd_ss(_mm_movehdup_ps(d), _mm_movehdup_ps(f), result);
    return _mm_cvtss_f32(result);
  }
};

struct SuperQ6 {
  using F = Q6_K;
  static constexpr Words32 index[4] = {scale_index(8, 0, 1), scale_index(8, 4, 1),
                                       scale_index(8, 8, 1), scale_index(8, 12, 1)};

  static CERA_INLINE float add(const std::byte* block, const RowSuper& x, float s) {
    const __m256i words = _mm256_cvtepi8_epi16(load16(block + F::scales_at));
    const __m512i nibble = _mm512_set1_epi8(15), bits = _mm512_set1_epi8(0x30);
    // Rotations that bring the bit pairs of codes 0..31 and 32..63 (64..95 and 96..127) to bits 4
    // and 5.
    const __m512i left = _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2);
    const __m512i right = _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2);
    __m512i acc = _mm512_setzero_si512();
    CERA_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      const __m512i v = load64(block + 64 * half),
                    high = both(load32(block + F::high_at + 32 * half));
      const __m512i first = _mm512_and_si512(_mm512_rolv_epi64(high, left), bits);
      const __m512i second = _mm512_and_si512(_mm512_rorv_epi64(high, right), bits);
      const __m512i a = _mm512_or_si512(_mm512_and_si512(v, nibble), first);
      const __m512i b = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(v, 4), nibble), second);
      acc = add_products(acc, a, load64(x.q + 128 * half), pick(words, index[2 * half]));
      acc = add_products(acc, b, load64(x.q + 128 * half + 64), pick(words, index[2 * half + 1]));
    }
    // The offset of 32 comes off all codes at once.
    const __m256i offset = _mm256_slli_epi32(_mm256_madd_epi16(words, load32(x.sums16)), 5);
    __m128i sums = _mm_sub_epi32(fold(acc), _mm_add_epi32(_mm256_castsi256_si128(offset),
                                                          _mm256_extracti128_si256(offset, 1)));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1));
    const __m128 d = _mm_mul_ss(_mm_cvtph_ps(load2(block + F::d_at)), _mm_set_ss(x.d));
    return _mm_cvtss_f32(_mm_fmadd_ss(d, _mm_cvtepi32_ps(sums), _mm_set_ss(s)));
  }
};

template <class S>
CERA_INLINE float dot_super_row(const std::byte* row, uint32_t n_blocks, const RowSuper* x) {
  float s = 0;
  for (uint32_t i = 0; i < n_blocks; ++i, row += S::F::block_bytes, ++x) {
    prefetch(row, S::F::block_bytes);
    s = S::add(row, *x, s);
  }
  return s;
}

// ---- rows ----

template <class F>
void dot_quad_rows(const Weight& weight, uint32_t first_row, uint32_t n_rows, const std::byte* x,
                   size_t x_stride, uint32_t n_x, float* out, size_t out_stride) {
  const std::byte* row = weight.data + first_row * weight.row_bytes;
  for (uint32_t r = 0; r < n_rows; ++r, row += weight.row_bytes)
    for (uint32_t i = 0; i < n_x; ++i)
      out[i * out_stride + r] = dot_quad_row<F>(row, weight.n_cols / 32,
                                                reinterpret_cast<const RowQuad*>(x + i * x_stride));
}

template <class S>
void dot_super_rows(const Weight& weight, uint32_t first_row, uint32_t n_rows, const std::byte* x,
                    size_t x_stride, uint32_t n_x, float* out, size_t out_stride) {
  const std::byte* row = weight.data + first_row * weight.row_bytes;
  for (uint32_t r = 0; r < n_rows; ++r, row += weight.row_bytes)
    for (uint32_t i = 0; i < n_x; ++i)
      out[i * out_stride + r] = dot_super_row<S>(
          row, weight.n_cols / 256, reinterpret_cast<const RowSuper*>(x + i * x_stride));
}

}  // namespace

DotRows quantised_dot_rows(TensorType type) {
  switch (type) {
    case TensorType::q4_0:
      return dot_quad_rows<Q4_0>;
    case TensorType::q4_1:
      return dot_quad_rows<Q4_1>;
    case TensorType::q5_0:
      return dot_quad_rows<Q5_0>;
    case TensorType::q5_1:
      return dot_quad_rows<Q5_1>;
    case TensorType::q4_k:
      return dot_super_rows<Super<4>>;
    case TensorType::q5_k:
      return dot_super_rows<Super<5>>;
    case TensorType::q6_k:
      return dot_super_rows<SuperQ6>;
    default:
      return avx2::quantised_dot_rows(type);
  }
}

}  // namespace cera::cpu::avx512

#include "backends/cpu/x86/avx512_end.h"
#endif
