// The AVX2 tier of linear: its tables and what happens to finished dot products.

#include "backends/cpu/x86/linear_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "ops/math.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/math_avx2.h"

namespace cera::cpu::avx2 {
namespace {

constexpr uint32_t group_rows = 4, panel_rows = 16;

inline __m256 activate(Activation activation, __m256 y) {
  return activation == Activation::silu ? silu8(y) : y;
}

}  // namespace

void finish(const Epilogue& epilogue, const float* dots, const float* bias, float* out, uint32_t n) {
  const __m256 scale = _mm256_set1_ps(epilogue.scale);
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i mask = first_lanes(n - i < 8 ? n - i : 8);
    __m256 y = _mm256_maskload_ps(dots + i, mask);
    if (bias != nullptr) y = _mm256_add_ps(y, _mm256_maskload_ps(bias + i, mask));
    y = activate(epilogue.activation, y);
    if (epilogue.scale != 1.0f) y = _mm256_mul_ps(y, scale);
    if (epilogue.accumulate) y = _mm256_add_ps(_mm256_maskload_ps(out + i, mask), y);
    _mm256_maskstore_ps(out + i, mask, y);
  }
}

void finish_glu(Activation activation, const float* gate, const float* up, float* out, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i mask = first_lanes(n - i < 8 ? n - i : 8);
    const __m256 g = activate(activation, _mm256_maskload_ps(gate + i, mask));
    _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(g, _mm256_maskload_ps(up + i, mask)));
  }
}

namespace {

const ActivationKernels& activations(ops::ActivationFormat format) {
  return activation_kernels(format, group_rows);
}

struct Entry {
  TensorType type;
  WeightKernels kernels;
};

Entry entry(TensorType type) {
  if (ops::activation_format(type) == ops::ActivationFormat::f32) return {type, float_kernels(type, group_rows)};
  WeightKernels kernels = quantised_panels(type);
  kernels.dot_rows = quantised_dot_rows(type);
  return {type, kernels};
}

const WeightKernels* weights(TensorType type) {
  static const Entry entries[] = {
      entry(TensorType::f32),  entry(TensorType::f16),  entry(TensorType::bf16),
      entry(TensorType::q4_0), entry(TensorType::q4_1), entry(TensorType::q5_0),
      entry(TensorType::q5_1), entry(TensorType::q8_0), entry(TensorType::q4_k),
      entry(TensorType::q5_k), entry(TensorType::q6_k),
  };
  for (const Entry& e : entries)
    if (e.type == type) return &e.kernels;
  return nullptr;
}

constexpr LinearKernels kernels = {"avx2",     4,          group_rows,  panel_rows, finish,
                                   finish_glu, activations, weights};

}  // namespace

const LinearKernels* linear_kernels() { return &kernels; }

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#else
namespace cera::cpu::avx2 {
const LinearKernels* linear_kernels() { return nullptr; }
}  // namespace cera::cpu::avx2
#endif
