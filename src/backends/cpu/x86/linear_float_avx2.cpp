// F32, F16 and BF16 weights: f32 products, 8 lanes over the columns, as math::dot orders them.

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/x86/linear_avx2.h"
#include "base/checked.h"
#include "ops/math.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/linear_codes_avx2.h"
#include "backends/cpu/x86/math_avx2.h"

namespace cera::cpu::avx2 {
namespace {

struct F32 {
  static constexpr uint32_t bytes = 4;
  static CERA_INLINE __m256 load8(const std::byte* from) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  }
};
struct F16 {
  static constexpr uint32_t bytes = 2;
  static CERA_INLINE __m256 load8(const std::byte* from) { return _mm256_cvtph_ps(load16(from)); }
};
struct BF16 {
  static constexpr uint32_t bytes = 2;
  static CERA_INLINE __m256 load8(const std::byte* from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(from)), 16));
  }
};

/// The last n < 8 columns of a row, zeros behind them; reads nothing past the row.
template <class F>
CERA_INLINE __m256 load_tail(const std::byte* from, uint32_t n) {
  alignas(32) std::byte copy[32] = {};
  std::memcpy(copy, from, size_t{n} * F::bytes);
  return F::load8(copy);
}

/// Dot products of n_rows weight rows with n_x activation rows (padded with zeros to whole
/// vectors).
template <class F, uint32_t n_rows, uint32_t n_x>
CERA_INLINE void multiply_tile(const std::byte* w, size_t w_stride, const float* x, size_t x_stride,
                               uint32_t n_cols, float* out, size_t out_stride) {
  __m256 acc[n_rows][n_x];
  CERA_UNROLL
  for (uint32_t r = 0; r < n_rows; ++r) CERA_UNROLL
  for (uint32_t i = 0; i < n_x; ++i) acc[r][i] = _mm256_setzero_ps();
  uint32_t k = 0;
  for (; k + 8 <= n_cols; k += 8) {
    CERA_UNROLL
    for (uint32_t r = 0; r < n_rows; ++r) {
      const __m256 v = F::load8(w + r * w_stride + k * F::bytes);
      CERA_UNROLL
      for (uint32_t i = 0; i < n_x; ++i)
        acc[r][i] = _mm256_fmadd_ps(v, _mm256_loadu_ps(x + i * x_stride + k), acc[r][i]);
    }
  }
  if (k < n_cols) {
    // Lanes past the end keep their sums: adding 0 would turn -0 into 0.
    const __m256 present = _mm256_castsi256_ps(first_lanes(n_cols - k));
    for (uint32_t r = 0; r < n_rows; ++r) {
      const __m256 v = load_tail<F>(w + r * w_stride + k * F::bytes, n_cols - k);
      for (uint32_t i = 0; i < n_x; ++i) {
        const __m256 sum = _mm256_fmadd_ps(v, _mm256_loadu_ps(x + i * x_stride + k), acc[r][i]);
        acc[r][i] = _mm256_blendv_ps(acc[r][i], sum, present);
      }
    }
  }
  for (uint32_t r = 0; r < n_rows; ++r)
    for (uint32_t i = 0; i < n_x; ++i) out[i * out_stride + r] = join8(acc[r][i]);
}

template <class F>
void dot_rows(const Weight& weight, uint32_t first_row, uint32_t n_rows, const std::byte* x,
              size_t x_stride, uint32_t n_x, float* out, size_t out_stride) {
  const std::byte* w = weight.data + first_row * weight.row_bytes;
  // One chain of additions for each lane: several rows at once hide its latency.
  constexpr uint32_t batch = 4;
  for (uint32_t r = 0; r < n_rows; r += batch, w += batch * weight.row_bytes) {
    for (uint32_t i = 0; i < n_x; ++i) {
      const float* row = reinterpret_cast<const float*>(x + i * x_stride);
      float* to = out + i * out_stride + r;
      if (r + batch <= n_rows) {
        multiply_tile<F, batch, 1>(w, weight.row_bytes, row, 0, weight.n_cols, to, 0);
      } else {
        for (uint32_t j = 0; r + j < n_rows; ++j)
          multiply_tile<F, 1, 1>(w + j * weight.row_bytes, 0, row, 0, weight.n_cols, to + j, 0);
      }
    }
  }
}

template <uint32_t panel_rows>
size_t panel_bytes(uint32_t n_cols) {
  return round_up<size_t>(panel_rows * padded(n_cols) * sizeof(float), 64);
}

template <class F, uint32_t panel_rows>
void unpack_panel(const Weight& weight, uint32_t first_row, std::byte* panel) {
  float* to = reinterpret_cast<float*>(panel);
  for (uint32_t r = 0; r < panel_rows; ++r, to += padded(weight.n_cols)) {
    const uint32_t row = std::min(first_row + r, weight.n_rows - 1);
    const std::byte* w = weight.data + row * weight.row_bytes;
    uint32_t k = 0;
    for (; k + 8 <= weight.n_cols; k += 8) _mm256_storeu_ps(to + k, F::load8(w + k * F::bytes));
    if (k < weight.n_cols)
      _mm256_storeu_ps(to + k, load_tail<F>(w + k * F::bytes, weight.n_cols - k));
  }
}

template <uint32_t panel_rows, uint32_t group_rows>
void multiply(const std::byte* panel, const std::byte* group, uint32_t n_cols, float* out,
              size_t out_stride) {
  const size_t w_stride = padded(n_cols) * sizeof(float);
  const auto& packing = activation_kernels(ops::ActivationFormat::f32, group_rows);
  const size_t x_stride = packing.row_bytes(n_cols) / sizeof(float);
  const float* x = reinterpret_cast<const float*>(group);
  for (uint32_t i = 0; i < group_rows; i += 4)
    for (uint32_t r = 0; r < panel_rows; r += 2)
      multiply_tile<F32, 2, 4>(panel + r * w_stride, w_stride, x + i * x_stride, x_stride, n_cols,
                               out + i * out_stride + r, out_stride);
}

template <class F, uint32_t panel_rows, uint32_t group_rows>
constexpr WeightKernels floats = {dot_rows<F>, panel_bytes<panel_rows>, unpack_panel<F, panel_rows>,
                                  multiply<panel_rows, group_rows>};

template <class F>
WeightKernels kernels_of(uint32_t group_rows) {
  return group_rows == 8 ? floats<F, 32, 8> : floats<F, 16, 4>;
}

}  // namespace

WeightKernels float_kernels(TensorType type, uint32_t group_rows) {
  switch (type) {
    case TensorType::f16:
      return kernels_of<F16>(group_rows);
    case TensorType::bf16:
      return kernels_of<BF16>(group_rows);
    default:
      return kernels_of<F32>(group_rows);
  }
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#endif
