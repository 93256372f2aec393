// Dot products of a panel of 32 weight rows with a group of 8 activation rows, any quantised type.
//
// As in linear_gemm_avx2.cpp, 4 columns of one activation row meet those of 16 weight rows in one
// instruction, which here (VNNI) adds four products to 32-bit lanes: nothing can overflow, 8-bit
// codes are used whole, and an offset comes off where the sums start.

#if defined(__x86_64__)
#include "backends/cpu/x86/avx512_intrinsics.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/x86/linear_avx512.h"

#include "backends/cpu/x86/avx512_begin.h"
#include "backends/cpu/x86/linear_codes_avx2.h"
#include "backends/cpu/x86/linear_panels_avx2.h"

namespace cera::cpu::avx512 {
namespace {

using namespace avx2;

struct Panel32 {
  static constexpr uint32_t rows = panel_rows;
  static constexpr bool splits_bytes = false;
  using Scale = int32_t;
  static CERA_INLINE Scale scale(int value) { return value; }
};

template <class F>
using BlockOf = BlockPanel<F, Panel32>;
template <class F>
using SuperOf = SuperPanel<F, Panel32>;
using Block = GroupBlock<group_rows>;
using Super = GroupSuper<group_rows>;

constexpr uint32_t n_vectors = 2 * group_rows;  // accumulators: [group row][half of the panel]

CERA_INLINE __m512i load64(const void* from) {
  return _mm512_loadu_si512(from);
}

/// acc[2 i + half] += codes of the panel half * activations of group row i, over n_steps times 4
/// columns.
template <uint32_t n_steps>
CERA_INLINE void add_products(const uint8_t* codes, const int8_t* q, __m512i acc[n_vectors]) {
  CERA_UNROLL
  for (uint32_t step = 0; step < n_steps; ++step, codes += 4 * panel_rows, q += 4 * group_rows) {
    const __m512i w0 = load64(codes), w1 = load64(codes + 64);
    CERA_UNROLL
    for (uint32_t i = 0; i < group_rows; ++i) {
      int32_t columns;
      __builtin_memcpy(&columns, q + 4 * i, sizeof columns);
      __m512i x = _mm512_set1_epi32(columns);
      asm("" : "+v"(x));  // one broadcast for both halves
      acc[2 * i] = _mm512_dpbusd_epi32(acc[2 * i], w0, x);
      acc[2 * i + 1] = _mm512_dpbusd_epi32(acc[2 * i + 1], w1, x);
    }
  }
}

/// Sums start where an offset of 1 << shift is off all codes (none for shift 0).
CERA_INLINE void start_sums(const int16_t lane_sums[group_rows][2], int shift,
                            __m512i acc[n_vectors]) {
  alignas(32) int32_t start[group_rows] = {};
  if (shift > 0) {
    const __m256i sums = _mm256_madd_epi16(load32(lane_sums), _mm256_set1_epi16(1));
    store32(start, _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sums, shift)));
  }
  CERA_UNROLL
  for (uint32_t i = 0; i < group_rows; ++i)
    acc[2 * i] = acc[2 * i + 1] = _mm512_set1_epi32(start[i]);
}

CERA_INLINE __m512 spread(float x) {
  return _mm512_set1_ps(x);
}

template <class F>
void multiply_blocks(const std::byte* panel, const std::byte* group, uint32_t n_cols, float* out,
                     size_t out_stride) {
  const auto* w = reinterpret_cast<const BlockOf<F>*>(panel);
  const auto* x = reinterpret_cast<const Block*>(group);
  alignas(64) float s[4][n_vectors][16];
  std::memset(s, 0, sizeof s);
  for (uint32_t b = 0; b < n_cols / 32; ++b, ++w, ++x) {
    __m512i acc[n_vectors];
    start_sums(x->lane_sums, F::is_signed ? 7 : F::offset_shift, acc);
    add_products<8>(w->q[0][0][0], x->q[0][0], acc);
    float(&part)[n_vectors][16] = s[b % 4];
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v) {
      const uint32_t at = v % 2 * 16;
      const __m512 d = _mm512_mul_ps(_mm512_loadu_ps(w->d + at), spread(x->d[v / 2]));
      __m512 y = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(acc[v]), _mm512_load_ps(part[v]));
      if constexpr (F::has_min)
        y = _mm512_fmadd_ps(_mm512_loadu_ps(w->m + at), spread(x->d_sums[v / 2]), y);
      _mm512_store_ps(part[v], y);
    }
  }
  CERA_UNROLL
  for (uint32_t v = 0; v < n_vectors; ++v) {
    const __m512 low = _mm512_add_ps(_mm512_load_ps(s[0][v]), _mm512_load_ps(s[1][v]));
    const __m512 high = _mm512_add_ps(_mm512_load_ps(s[2][v]), _mm512_load_ps(s[3][v]));
    _mm512_storeu_ps(out + v / 2 * out_stride + v % 2 * 16, _mm512_add_ps(low, high));
  }
}

/// Exact sums of scale * code * q over a super-block.
template <class F>
CERA_INLINE void super_sums(const SuperOf<F>& w, const Super& x, int32_t sums[n_vectors][16]) {
  constexpr uint32_t n_steps = F::sub_block / 4;
  for (uint32_t step = 0; step < 64; step += n_steps) {
    __m512i acc[n_vectors];
    start_sums(x.lane_sums[step / 4], F::code_bits == 6 ? 5 : 0, acc);
    add_products<n_steps>(w.q[step][0], x.q[step][0], acc);
    const int32_t* scales = w.scales[step / n_steps];
    const __m512i scale[2] = {load64(scales), load64(scales + 16)};
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v) {
      const __m512i scaled = _mm512_mullo_epi32(acc[v], scale[v % 2]);
      const __m512i before = step == 0 ? _mm512_setzero_si512() : _mm512_load_si512(sums[v]);
      _mm512_store_si512(sums[v], _mm512_add_epi32(before, scaled));
    }
  }
}

/// Exact sums of min * (sum of q) for one half of the panel and one group row.
template <class F>
CERA_INLINE __m512i min_sums(const SuperOf<F>& w, const Super& x, uint32_t at, uint32_t i) {
  __m512i sums = _mm512_setzero_si512();
  CERA_UNROLL
  for (uint32_t j = 0; j < 4; ++j) {
    int32_t pair;
    __builtin_memcpy(&pair, x.sums[j][i], sizeof pair);
    sums = _mm512_dpwssd_epi32(sums, load64(w.mins[j][at]), _mm512_set1_epi32(pair));
  }
  return sums;
}

template <class F>
void multiply_supers(const std::byte* panel, const std::byte* group, uint32_t n_cols, float* out,
                     size_t out_stride) {
  const auto* w = reinterpret_cast<const SuperOf<F>*>(panel);
  const auto* x = reinterpret_cast<const Super*>(group);
  alignas(64) float s[n_vectors][16] = {};
  alignas(64) int32_t sums[n_vectors][16];
  for (uint32_t b = 0; b < n_cols / 256; ++b, ++w, ++x) {
    super_sums<F>(*w, *x, sums);
    CERA_UNROLL
    for (uint32_t v = 0; v < n_vectors; ++v) {
      const uint32_t at = v % 2 * 16, i = v / 2;
      const __m512 x_d = spread(x->d[i]), d = _mm512_mul_ps(_mm512_loadu_ps(w->d + at), x_d);
      __m512 y =
          _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(_mm512_load_si512(sums[v])), _mm512_load_ps(s[v]));
      if constexpr (F::has_min) {
        const __m512 m = _mm512_mul_ps(_mm512_loadu_ps(w->m + at), x_d);
        y = _mm512_fnmadd_ps(m, _mm512_cvtepi32_ps(min_sums<F>(*w, *x, at, i)), y);
      }
      _mm512_store_ps(s[v], y);
    }
  }
  CERA_UNROLL
  for (uint32_t v = 0; v < n_vectors; ++v)
    _mm512_storeu_ps(out + v / 2 * out_stride + v % 2 * 16, _mm512_load_ps(s[v]));
}

template <class F>
constexpr WeightKernels blocks = {nullptr, block_panel_bytes<F, Panel32>, unpack_blocks<F, Panel32>,
                                  multiply_blocks<F>};
template <class F>
constexpr WeightKernels supers = {nullptr, super_panel_bytes<F, Panel32>, unpack_supers<F, Panel32>,
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

}  // namespace cera::cpu::avx512

#include "backends/cpu/x86/avx512_end.h"
#endif
