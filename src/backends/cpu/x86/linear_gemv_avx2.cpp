// Dot products of packed weight rows, read once where they lie, with one activation row (or very
// few). A row is one sequential stream; the integer work hides behind memory.

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "backends/cpu/x86/linear_avx2.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/linear_codes_avx2.h"

namespace cera::cpu::avx2 {
namespace {

constexpr uint32_t prefetch_bytes = 2048;

CERA_INLINE void prefetch(const std::byte* at, uint32_t n_bytes) {
  CERA_UNROLL
  for (uint32_t i = 0; i < n_bytes; i += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + prefetch_bytes + i), _MM_HINT_T0);
}

/// [a: 8 x int16 | c], [b | d] -> the sums a b c d. Sums of 8 must fit in int16.
CERA_INLINE __m128i join_blocks16(__m256i ac, __m256i bd) {
  const __m256i one = _mm256_set1_epi16(1);
  const __m256i four = _mm256_packs_epi32(_mm256_madd_epi16(ac, one), _mm256_madd_epi16(bd, one));
  const __m256i two = _mm256_madd_epi16(four, one);  // a a b b | c c d d
  return _mm_hadd_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

/// The same for [a: 4 x int32 | c], [b | d].
CERA_INLINE __m128i join_blocks32(__m256i ac, __m256i bd) {
  const __m256i two = _mm256_hadd_epi32(ac, bd);
  return _mm_hadd_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

/// Exact sums of code * q over four blocks.
template <class F>
CERA_INLINE __m128i dot_quad(const std::byte* const b[4], const RowQuad& x) {
  __m256i sums[2];
  CERA_UNROLL
  for (int i = 0; i < 2; ++i) {
    __m256i h[2];
    F::halves(b[i], b[i + 2], h);
    const __m256i x0 = load32(x.q[0][i]), x1 = load32(x.q[1][i]);
    if constexpr (F::is_signed) {
      // |w| * (x with the sign of w): a pair is at most 2 * 128 * 127, which fits.
      const __m256i one = _mm256_set1_epi16(1);
      const __m256i p0 = _mm256_maddubs_epi16(_mm256_abs_epi8(h[0]), _mm256_sign_epi8(x0, h[0]));
      const __m256i p1 = _mm256_maddubs_epi16(_mm256_abs_epi8(h[1]), _mm256_sign_epi8(x1, h[1]));
      sums[i] = _mm256_add_epi32(_mm256_madd_epi16(p0, one), _mm256_madd_epi16(p1, one));
    } else {
      sums[i] = _mm256_add_epi16(_mm256_maddubs_epi16(h[0], x0), _mm256_maddubs_epi16(h[1], x1));
    }
  }
  if constexpr (F::is_signed) return join_blocks32(sums[0], sums[1]);
  return join_blocks16(sums[0], sums[1]);
}

/// s[i] += block i of the quad.
template <class F>
CERA_INLINE __m128 add_quad(const std::byte* const b[4], const RowQuad& x, __m128 s) {
  __m128i sums = dot_quad<F>(b, x);
  if constexpr (F::offset_shift > 0) {
    const __m128i x_sums = _mm_load_si128(reinterpret_cast<const __m128i*>(x.sums));
    sums = _mm_sub_epi32(sums, _mm_slli_epi32(x_sums, F::offset_shift));
  }
  const Scales4 scales = F::scales(b);
  s = _mm_fmadd_ps(_mm_mul_ps(scales.d, _mm_load_ps(x.d)), _mm_cvtepi32_ps(sums), s);
  if constexpr (F::has_min) s = _mm_fmadd_ps(scales.m, _mm_load_ps(x.d_sums), s);
  return s;
}

/// The last 1 to 3 blocks of a row: those that are not there repeat the last one, and their sums
/// are dropped.
struct Tail {
  size_t offsets[4];
  __m128 present;
};

template <class F>
Tail tail_of(uint32_t n_blocks) {
  Tail tail{};
  const uint32_t n = n_blocks % 4;
  for (uint32_t i = 0; i < n; ++i) tail.offsets[i] = i * F::block_bytes;
  for (uint32_t i = n; i < 4 && n > 0; ++i) tail.offsets[i] = tail.offsets[n - 1];
  tail.present =
      _mm_castsi128_ps(_mm_cmpgt_epi32(_mm_set1_epi32(int(n)), _mm_setr_epi32(0, 1, 2, 3)));
  return tail;
}

template <class F>
CERA_INLINE float dot_quad_row(const std::byte* row, uint32_t n_blocks, const Tail& tail,
                               const RowQuad* x) {
  __m128 s = _mm_setzero_ps();
  for (uint32_t i = 0; i < n_blocks / 4; ++i, row += 4 * F::block_bytes, ++x) {
    prefetch(row, 4 * F::block_bytes);
    const std::byte* const b[4] = {row, row + F::block_bytes, row + 2 * F::block_bytes,
                                   row + 3 * F::block_bytes};
    s = add_quad<F>(b, *x, s);
  }
  if (n_blocks % 4 != 0) {
    const std::byte* const b[4] = {row + tail.offsets[0], row + tail.offsets[1],
                                   row + tail.offsets[2], row + tail.offsets[3]};
    s = _mm_blendv_ps(s, add_quad<F>(b, *x, s), tail.present);
  }
  s = _mm_add_ps(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehl_ps(s, s)));
}

// ---- K-quants ----

/// Every lane pair holds the 16-bit word i of its 128-bit lane.
CERA_INLINE __m256i spread16(__m256i words, uint32_t low, uint32_t high) {
  const char a = char(2 * low), b = char(2 * low + 1), c = char(2 * high), d = char(2 * high + 1);
  return _mm256_shuffle_epi8(
      words, _mm256_setr_epi8(a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, c, d, c, d, c, d, c,
                              d, c, d, c, d, c, d, c, d));
}

CERA_INLINE __m256i both_lanes(__m128i v) {
  return _mm256_broadcastsi128_si256(v);
}

template <class F>
CERA_INLINE __m256i add_half(const std::byte* block, uint32_t half, const __m256i scales[4],
                             const int8_t* q, __m256i acc) {
  __m256i v[4];
  F::codes(block, half, v);
  CERA_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const __m256i p = _mm256_maddubs_epi16(v[i], load32(q + 128 * half + 32 * i));
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(p, scales[i]));
  }
  return acc;
}

CERA_INLINE __m128i fold(__m256i v) {
  return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/// s + one block, as ops/linear.h orders it.
template <uint32_t bits>
CERA_INLINE float add_super(KNibbles<bits>, const std::byte* block, const RowSuper& x, float s) {
  const __m128i start = load16(block);
  const __m256i words = _mm256_cvtepu8_epi16(scale_min_bytes(start));
  const __m256i scales = both_lanes(_mm256_castsi256_si128(words));
  const __m128i mins = _mm256_extracti128_si256(words, 1);
  const __m256i low[4] = {spread16(scales, 0, 0), spread16(scales, 1, 1), spread16(scales, 2, 2),
                          spread16(scales, 3, 3)};
  __m256i acc = add_half<KNibbles<bits>>(block, 0, low, x.q, _mm256_setzero_si256());
  const __m256i high[4] = {spread16(scales, 4, 4), spread16(scales, 5, 5), spread16(scales, 6, 6),
                           spread16(scales, 7, 7)};
  acc = add_half<KNibbles<bits>>(block, 1, high, x.q, acc);
  const __m128i min_sums = _mm_madd_epi16(mins, load16(x.sums32));
  __m128i sums = _mm_hadd_epi32(fold(acc), min_sums);
  sums = _mm_hadd_epi32(sums, sums);  // codes, mins, codes, mins
  const __m128 f = _mm_cvtepi32_ps(sums);
  const __m128 d = _mm_mul_ps(_mm_cvtph_ps(start), _mm_set1_ps(x.d));
  __m128 result = _mm_fmadd_ss(d, f, _mm_set_ss(s));
  result = _mm_fnmadd_ss(_mm_movehdup_ps(d), _mm_movehdup_ps(f), result);
  return _mm_cvtss_f32(result);
}

CERA_INLINE float add_super(Q6_K, const std::byte* block, const RowSuper& x, float s) {
  const __m256i words = _mm256_cvtepi8_epi16(load16(block + Q6_K::scales_at));
  __m256i acc = _mm256_setzero_si256();
  CERA_UNROLL
  for (uint32_t half = 0; half < 2; ++half) {
    const __m256i w =
        both_lanes(half == 0 ? _mm256_castsi256_si128(words) : _mm256_extracti128_si256(words, 1));
    const __m256i scales[4] = {spread16(w, 0, 1), spread16(w, 2, 3), spread16(w, 4, 5),
                               spread16(w, 6, 7)};
    acc = add_half<Q6_K>(block, half, scales, x.q, acc);
  }
  // The offset of 32 comes off all codes at once.
  const __m256i offset = _mm256_madd_epi16(words, load32(x.sums16));
  __m128i sums = fold(_mm256_sub_epi32(acc, _mm256_slli_epi32(offset, 5)));
  sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
  sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1));
  const __m128 d = _mm_mul_ss(_mm_cvtph_ps(load2(block + Q6_K::d_at)), _mm_set_ss(x.d));
  return _mm_cvtss_f32(_mm_fmadd_ss(d, _mm_cvtepi32_ps(sums), _mm_set_ss(s)));
}

template <class F>
CERA_INLINE float dot_super_row(const std::byte* row, uint32_t n_blocks, const RowSuper* x) {
  float s = 0;
  for (uint32_t i = 0; i < n_blocks; ++i, row += F::block_bytes, ++x) {
    prefetch(row, F::block_bytes);
    s = add_super(F{}, row, *x, s);
  }
  return s;
}

// ---- rows ----

template <class F>
void dot_quad_rows(const Weight& weight, uint32_t first_row, uint32_t n_rows, const std::byte* x,
                   size_t x_stride, uint32_t n_x, float* out, size_t out_stride) {
  const std::byte* row = weight.data + first_row * weight.row_bytes;
  const uint32_t n_blocks = weight.n_cols / 32;
  const Tail tail = tail_of<F>(n_blocks);
  for (uint32_t r = 0; r < n_rows; ++r, row += weight.row_bytes)
    for (uint32_t i = 0; i < n_x; ++i)
      out[i * out_stride + r] =
          dot_quad_row<F>(row, n_blocks, tail, reinterpret_cast<const RowQuad*>(x + i * x_stride));
}

template <class F>
void dot_super_rows(const Weight& weight, uint32_t first_row, uint32_t n_rows, const std::byte* x,
                    size_t x_stride, uint32_t n_x, float* out, size_t out_stride) {
  const std::byte* row = weight.data + first_row * weight.row_bytes;
  for (uint32_t r = 0; r < n_rows; ++r, row += weight.row_bytes)
    for (uint32_t i = 0; i < n_x; ++i)
      out[i * out_stride + r] = dot_super_row<F>(
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
    case TensorType::q8_0:
      return dot_quad_rows<Q8_0>;
    case TensorType::q4_k:
      return dot_super_rows<Q4_K>;
    case TensorType::q5_k:
      return dot_super_rows<Q5_K>;
    case TensorType::q6_k:
      return dot_super_rows<Q6_K>;
    default:
      return nullptr;
  }
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#endif
