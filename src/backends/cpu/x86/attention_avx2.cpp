#include "backends/cpu/attention_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <limits>

#include "ops/math.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/math_avx2.h"

#define CERA_INLINE inline __attribute__((always_inline))
// Loops over the registers of a tile: rolled, they would keep the tile in memory.
#define CERA_UNROLL _Pragma("GCC unroll 8")

namespace cera::cpu::avx2 {
namespace {

CERA_INLINE __m256 load8(const float* p) {
  return _mm256_loadu_ps(p);
}
CERA_INLINE __m256 load8(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

/// c[r][0 .. 8 Vectors) continues its fma chain with a[r][i] * b[i][..] for i in [0, n). `ahead`
/// bytes from each b lies what will be read next.
template <uint32_t Rows, uint32_t Vectors>
struct Tile {
  __m256 c[Rows][Vectors];

  template <class T>
  CERA_INLINE void multiply(const float* a, size_t a_stride, const T* b, size_t b_stride,
                            ptrdiff_t ahead, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i, b += b_stride) {
      for (uint32_t byte = 0; byte < 8 * Vectors * sizeof(T); byte += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(b) + ahead + byte, _MM_HINT_T0);
      }
      __m256 wide[Vectors];
      CERA_UNROLL
      for (uint32_t j = 0; j < Vectors; ++j) wide[j] = load8(b + 8 * j);
      CERA_UNROLL
      for (uint32_t r = 0; r < Rows; ++r) {
        const __m256 x = _mm256_broadcast_ss(a + r * a_stride + i);
        CERA_UNROLL
        for (uint32_t j = 0; j < Vectors; ++j) c[r][j] = _mm256_fmadd_ps(x, wide[j], c[r][j]);
      }
    }
  }
};

/// The widest tile that leaves registers for its operands: 12 accumulators for 3 and more rows.
template <uint32_t Rows>
inline constexpr uint32_t kVectors = Rows >= 4   ? 2
                                     : Rows == 3 ? 4
                                     : Rows == 2 ? 4
                                                 : 8;

template <uint32_t Rows, uint32_t Vectors, class T>
void scores_tile(const float* q, uint32_t head_dim, float scale, const T* k, ptrdiff_t ahead,
                 float* s) {
  Tile<Rows, Vectors> tile = {};
  tile.multiply(q, head_dim, k, kPageCells, ahead, head_dim);
  CERA_UNROLL
  for (uint32_t r = 0; r < Rows; ++r) {
    CERA_UNROLL
    for (uint32_t j = 0; j < Vectors; ++j) {
      _mm256_storeu_ps(s + r * kSpanCells + 8 * j,
                       _mm256_mul_ps(tile.c[r][j], _mm256_set1_ps(scale)));
    }
  }
}

template <uint32_t Rows, uint32_t Vectors, class T>
void weigh_tile(const float* e, const T* v, ptrdiff_t ahead, uint32_t n_cells, uint32_t head_dim,
                float* o) {
  Tile<Rows, Vectors> tile;
  CERA_UNROLL
  for (uint32_t r = 0; r < Rows; ++r) {
    CERA_UNROLL
    for (uint32_t j = 0; j < Vectors; ++j) tile.c[r][j] = load8(o + r * head_dim + 8 * j);
  }
  tile.multiply(e, kSpanCells, v, head_dim, ahead, n_cells);
  CERA_UNROLL
  for (uint32_t r = 0; r < Rows; ++r) {
    CERA_UNROLL
    for (uint32_t j = 0; j < Vectors; ++j) {
      _mm256_storeu_ps(o + r * head_dim + 8 * j, tile.c[r][j]);
    }
  }
}

template <uint32_t Rows, class T>
void scores_rows(const float* q, uint32_t head_dim, float scale, const T* k, ptrdiff_t ahead,
                 uint32_t n_cells, float* s) {
  constexpr uint32_t kCells = 8 * kVectors<Rows>;
  static_assert(kPageCells % kCells == 0);
  for (uint32_t i = 0; i < n_cells; i += kCells) {
    scores_tile<Rows, kVectors<Rows>>(q, head_dim, scale, k + i, ahead, s + i);
  }
}

/// Channels from d on, in tiles of Vectors, then in narrower ones.
template <uint32_t Rows, uint32_t Vectors, class T>
CERA_INLINE void weigh_columns(const float* e, const T* v, ptrdiff_t ahead, uint32_t n_cells,
                               uint32_t head_dim, float* o, uint32_t d) {
  for (; d + 8 * Vectors <= head_dim; d += 8 * Vectors) {
    weigh_tile<Rows, Vectors>(e, v + d, ahead, n_cells, head_dim, o + d);
  }
  if constexpr (Vectors > 1) {
    weigh_columns<Rows, Vectors / 2>(e, v, ahead, n_cells, head_dim, o, d);
  }
}

template <uint32_t Rows, class T>
void weigh_rows(const float* e, const T* v, ptrdiff_t ahead, uint32_t n_cells, uint32_t head_dim,
                float* o) {
  weigh_columns<Rows, kVectors<Rows>>(e, v, ahead, n_cells, head_dim, o, 0);
}

template <class T>
void scores(const float* q, uint32_t n_queries, uint32_t head_dim, float scale, const std::byte* k,
            const std::byte* next, uint32_t n_cells, float* s) {
  static constexpr decltype(&scores_rows<1, T>) kByRows[kQueryTile] = {
      scores_rows<1, T>, scores_rows<2, T>, scores_rows<3, T>,
      scores_rows<4, T>, scores_rows<5, T>, scores_rows<6, T>};
  kByRows[n_queries - 1](q, head_dim, scale, reinterpret_cast<const T*>(k), next - k, n_cells, s);
}

template <class T>
void weigh(const float* e, uint32_t n_queries, const std::byte* v, const std::byte* next,
           uint32_t n_cells, uint32_t head_dim, float* o) {
  static constexpr decltype(&weigh_rows<1, T>) kByRows[kQueryTile] = {
      weigh_rows<1, T>, weigh_rows<2, T>, weigh_rows<3, T>,
      weigh_rows<4, T>, weigh_rows<5, T>, weigh_rows<6, T>};
  kByRows[n_queries - 1](e, reinterpret_cast<const T*>(v), next - v, n_cells, head_dim, o);
}

CERA_INLINE float max8(__m256 v) {
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}

SoftmaxSum softmax(float* s, uint32_t n) {
  const __m256 lowest = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  const uint32_t whole = n / 8 * 8;
  const __m256 rest = _mm256_castsi256_ps(first_lanes(n - whole));
  // max_ps gives its second operand, the maximum so far, for a NaN score.
  __m256 max = lowest;
  for (uint32_t i = 0; i < whole; i += 8) max = _mm256_max_ps(load8(s + i), max);
  if (whole < n) max = _mm256_max_ps(_mm256_blendv_ps(lowest, load8(s + whole), rest), max);
  const float m = max8(max);
  __m256 lanes = _mm256_setzero_ps();
  for (uint32_t i = 0; i < whole; i += 8) {
    const __m256 e = exp8(_mm256_sub_ps(load8(s + i), _mm256_set1_ps(m)));
    _mm256_storeu_ps(s + i, e);
    lanes = _mm256_add_ps(lanes, e);
  }
  if (whole < n) {
    const __m256 e = exp8(_mm256_sub_ps(load8(s + whole), _mm256_set1_ps(m)));
    _mm256_storeu_ps(s + whole, e);
    lanes = _mm256_add_ps(lanes, _mm256_and_ps(e, rest));
  }
  return {m, join8(lanes)};
}

void merge(SoftmaxSum* total, SoftmaxSum span, float* total_o, const float* o, uint32_t head_dim) {
  const float m = span.m > total->m ? span.m : total->m;
  const __m256 a = exp8(_mm256_set1_ps(total->m - m)), b = exp8(_mm256_set1_ps(span.m - m));
  total->l = total->l * _mm256_cvtss_f32(a) + span.l * _mm256_cvtss_f32(b);
  total->m = m;
  for (uint32_t d = 0; d < head_dim; d += 8) {
    _mm256_storeu_ps(total_o + d, _mm256_add_ps(_mm256_mul_ps(load8(total_o + d), a),
                                                _mm256_mul_ps(load8(o + d), b)));
  }
}

template <class T>
constexpr AttentionKernels kKernels = {scores<T>, softmax, weigh<T>, merge, "avx2"};

}  // namespace

const AttentionKernels* attention_kernels(KvType type) {
  return type == KvType::f16 ? &kKernels<uint16_t> : &kKernels<float>;
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#else
namespace cera::cpu::avx2 {
const AttentionKernels* attention_kernels(KvType) {
  return nullptr;
}
}  // namespace cera::cpu::avx2
#endif
