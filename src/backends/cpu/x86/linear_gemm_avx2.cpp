// Dot products of a panel of 16 weight rows with a group of 4 activation rows, any quantised type.
//
// A panel holds codes as [column / 4][16 rows][4], so a group's 4 columns of one row, spread over a
// vector, meet those of 8 weight rows in one maddubs. Sums stay in 16 bits over a run of columns
// that cannot overflow, then one madd widens them (and multiplies by a sub-block's scale). Per 32
// columns and multiply step (4-bit codes, unsigned): |sum| <= 8 * 2 * 15 * 127 = 30480. With an
// offset, the 16-bit lanes start at -offset * (sum of the lane's activations) and may wrap on the
// way: the true sum fits (16 * 16 * 127 and 8 * 32 * 127 = 32512). 8-bit codes are split: w = 16 *
// (high - 8) + low, two 4-bit sums.

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/x86/linear_avx2.h"
#include "base/checked.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/linear_codes_avx2.h"
#include "backends/cpu/x86/linear_panels_avx2.h"

namespace cera::cpu::avx2 {
namespace {

constexpr uint32_t kGroupRows = 4, kPanelRows = 16;

struct Panel16 {
  static constexpr uint32_t rows = kPanelRows;
  static constexpr bool splits_bytes = true;
  struct Scale {
    int16_t twice[2];  // an operand of madd
  };
  static CERA_INLINE Scale scale(int value) { return {{int16_t(value), int16_t(value)}}; }
};

template <class F>
using BlockOf = BlockPanel<F, Panel16>;
template <class F>
using SuperOf = SuperPanel<F, Panel16>;
using Block = GroupBlock<kGroupRows>;
using Super = GroupSuper<kGroupRows>;

constexpr uint32_t n_vectors = 2 * kGroupRows;  // accumulators: [group row][half of the panel]

// ---- multiplying ----

// The compiler may neither reorder the 16-bit additions of different steps nor keep many products
// alive: a barrier on each accumulator keeps them in registers.
CERA_INLINE void keep(__m256i& v) {
  asm("" : "+x"(v));
}

/// acc[2 i + half] += codes of the panel half * activations of group row i, over n_steps times 4
/// columns.
template <uint32_t n_steps>
CERA_INLINE void add_products(const uint8_t* codes, const int8_t* q, __m256i acc[n_vectors]) {
  CERA_UNROLL
  for (uint32_t step = 0; step < n_steps; ++step, codes += 64, q += 16) {
    const __m256i w0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i w1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32));
    CERA_UNROLL
    for (uint32_t i = 0; i < kGroupRows; ++i) {
      int32_t columns;
      __builtin_memcpy(&columns, q + 4 * i, sizeof columns);
      const __m256i x = _mm256_set1_epi32(columns);
      acc[2 * i] = _mm256_add_epi16(acc[2 * i], _mm256_maddubs_epi16(w0, x));
      keep(acc[2 * i]);
      acc[2 * i + 1] = _mm256_add_epi16(acc[2 * i + 1], _mm256_maddubs_epi16(w1, x));
      keep(acc[2 * i + 1]);
    }
  }
}

/// acc = -(sum of the lane's activations) << shift, so that an offset of 1 << shift is off all
/// codes.
CERA_INLINE void start_sums(const int16_t lane_sums[kGroupRows][2], int shift,
                            __m256i acc[n_vectors]) {
  CERA_UNROLL
  for (uint32_t i = 0; i < kGroupRows; ++i) {
    int32_t pair;
    __builtin_memcpy(&pair, lane_sums[i], sizeof pair);
    const __m256i sums = _mm256_slli_epi16(_mm256_set1_epi32(pair), shift);
    acc[2 * i] = acc[2 * i + 1] = _mm256_sub_epi16(_mm256_setzero_si256(), sums);
  }
}

CERA_INLINE void clear_sums(__m256i acc[n_vectors]) {
  CERA_UNROLL
  for (uint32_t v = 0; v < n_vectors; ++v) acc[v] = _mm256_setzero_si256();
}

/// Exact sums of one block of 32 columns.
template <class F>
CERA_INLINE void block_sums(const BlockOf<F>& w, const Block& x, __m256i sums[n_vectors]) {
  const __m256i one = _mm256_set1_epi16(1);
  __m256i acc[n_vectors];
  if constexpr (F::is_signed) {
    start_sums(x.lane_sums, 3, acc);
    add_products<8>(w.q[0][0][0], x.q[0][0], acc);
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v)
      sums[v] = _mm256_madd_epi16(acc[v], _mm256_set1_epi16(16));
    clear_sums(acc);
    add_products<8>(w.q[1][0][0], x.q[0][0], acc);
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v)
      sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(acc[v], one));
  } else if constexpr (F::code_bits == 5 && F::offset_shift == 0) {
    CERA_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      clear_sums(acc);
      add_products<4>(w.q[0][4 * half][0], x.q[4 * half][0], acc);
      CERA_UNROLL
      for (uint32_t v = 0; v < n_vectors; ++v) {
        const __m256i wide = _mm256_madd_epi16(acc[v], one);
        sums[v] = half == 0 ? wide : _mm256_add_epi32(sums[v], wide);
      }
    }
  } else {
    if constexpr (F::offset_shift > 0)
      start_sums(x.lane_sums, F::offset_shift, acc);
    else
      clear_sums(acc);
    add_products<8>(w.q[0][0][0], x.q[0][0], acc);
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v) sums[v] = _mm256_madd_epi16(acc[v], one);
  }
}

template <class F>
void multiply_blocks(const std::byte* panel, const std::byte* group, uint32_t n_cols, float* out,
                     size_t out_stride) {
  const auto* w = reinterpret_cast<const BlockOf<F>*>(panel);
  const auto* x = reinterpret_cast<const Block*>(group);
  alignas(32) float s[4][n_vectors][8];
  std::memset(s, 0, sizeof s);
  for (uint32_t b = 0; b < n_cols / 32; ++b, ++w, ++x) {
    __m256i sums[n_vectors];
    block_sums<F>(*w, *x, sums);
    float(&part)[n_vectors][8] = s[b % 4];
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v) {
      const uint32_t at = v % 2 * 8;
      const __m256 d = _mm256_mul_ps(_mm256_load_ps(w->d + at), _mm256_set1_ps(x->d[v / 2]));
      __m256 y = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums[v]), _mm256_load_ps(part[v]));
      if constexpr (F::has_min)
        y = _mm256_fmadd_ps(_mm256_load_ps(w->m + at), _mm256_set1_ps(x->d_sums[v / 2]), y);
      _mm256_store_ps(part[v], y);
    }
  }
  CERA_UNROLL
  for (uint32_t v = 0; v < n_vectors; ++v) {
    const __m256 low = _mm256_add_ps(_mm256_load_ps(s[0][v]), _mm256_load_ps(s[1][v]));
    const __m256 high = _mm256_add_ps(_mm256_load_ps(s[2][v]), _mm256_load_ps(s[3][v]));
    _mm256_storeu_ps(out + v / 2 * out_stride + v % 2 * 8, _mm256_add_ps(low, high));
  }
}

/// sums += scale * (exact sum of sub-block j), over the whole super-block.
template <class F>
CERA_INLINE void super_sums(const SuperOf<F>& w, const Super& x, __m256i sums[n_vectors]) {
  // At most 16 columns of 5 or 6-bit codes fit in 16 bits.
  constexpr uint32_t n_steps = F::code_bits == 4 ? 8 : 4;
  CERA_UNROLL
  for (uint32_t v = 0; v < n_vectors; ++v) sums[v] = _mm256_setzero_si256();
  for (uint32_t step = 0; step < 64; step += n_steps) {
    __m256i acc[n_vectors];
    if constexpr (F::code_bits == 6)
      start_sums(x.lane_sums[step / 4], 5, acc);
    else
      clear_sums(acc);
    add_products<n_steps>(w.q[step][0], x.q[step][0], acc);
    const auto* scales = w.scales[step * 4 / F::sub_block];
    const __m256i scale[2] = {load32(scales), load32(scales + 8)};
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v)
      sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(acc[v], scale[v % 2]));
  }
}

template <class F>
void multiply_supers(const std::byte* panel, const std::byte* group, uint32_t n_cols, float* out,
                     size_t out_stride) {
  const auto* w = reinterpret_cast<const SuperOf<F>*>(panel);
  const auto* x = reinterpret_cast<const Super*>(group);
  alignas(32) float s[n_vectors][8] = {};
  for (uint32_t b = 0; b < n_cols / 256; ++b, ++w, ++x) {
    __m256i sums[n_vectors];
    super_sums<F>(*w, *x, sums);
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v) {
      const uint32_t at = v % 2 * 8, i = v / 2;
      const __m256 x_d = _mm256_set1_ps(x->d[i]);
      const __m256 d = _mm256_mul_ps(_mm256_load_ps(w->d + at), x_d);
      __m256 y = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums[v]), _mm256_load_ps(s[v]));
      if constexpr (F::has_min) {
        __m256i min_sums = _mm256_setzero_si256();
        CERA_UNROLL
        for (uint32_t j = 0; j < 4; ++j) {
          int32_t pair;
          __builtin_memcpy(&pair, x->sums[j][i], sizeof pair);
          const __m256i mins = load32(w->mins[j][at]);
          min_sums = _mm256_add_epi32(min_sums, _mm256_madd_epi16(mins, _mm256_set1_epi32(pair)));
        }
        const __m256 m = _mm256_mul_ps(_mm256_load_ps(w->m + at), x_d);
        y = _mm256_fnmadd_ps(m, _mm256_cvtepi32_ps(min_sums), y);
      }
      _mm256_store_ps(s[v], y);
    }
  }
  CERA_UNROLL
  for (uint32_t v = 0; v < n_vectors; ++v)
    _mm256_storeu_ps(out + v / 2 * out_stride + v % 2 * 8, _mm256_load_ps(s[v]));
}

template <class F>
constexpr WeightKernels blocks = {nullptr, block_panel_bytes<F, Panel16>, unpack_blocks<F, Panel16>,
                                  multiply_blocks<F>};
template <class F>
constexpr WeightKernels supers = {nullptr, super_panel_bytes<F, Panel16>, unpack_supers<F, Panel16>,
                                  multiply_supers<F>};

}  // namespace

WeightKernels quantised_panels(TensorType type) {
  switch (type) {
    case TensorType::q4_0:
      return blocks<Q4_0>;
    case TensorType::q4_1:
      return blocks<Q4_1>;
    case TensorType::q5_0:
      return blocks<Q5_0>;
    case TensorType::q5_1:
      return blocks<Q5_1>;
    case TensorType::q8_0:
      return blocks<Q8_0>;
    case TensorType::q4_k:
      return supers<Q4_K>;
    case TensorType::q5_k:
      return supers<Q5_K>;
    case TensorType::q6_k:
      return supers<Q6_K>;
    default:
      return {};
  }
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#endif
