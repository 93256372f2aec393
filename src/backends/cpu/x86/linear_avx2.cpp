// The AVX2 tier of linear: its tables and what happens to finished dot products.

#include "backends/cpu/x86/linear_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "ops/math.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/linear_finish.h"
#include "backends/cpu/x86/math_avx2.h"

namespace cera::cpu::avx2 {
namespace {

constexpr uint32_t group_rows = 4, panel_rows = 16;

struct Floats8 {
  using Type = __m256;
  static constexpr uint32_t width = 8;
  static Type load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Type y) { _mm256_storeu_ps(to, y); }
  static Type load_part(const float* from, uint32_t n) {
    return _mm256_maskload_ps(from, first_lanes(n));
  }
  static void store_part(float* to, uint32_t n, Type y) {
    _mm256_maskstore_ps(to, first_lanes(n), y);
  }
  static Type set1(float x) { return _mm256_set1_ps(x); }
  static Type add(Type a, Type b) { return _mm256_add_ps(a, b); }
  static Type mul(Type a, Type b) { return _mm256_mul_ps(a, b); }
  static Type silu(Type x) { return silu8(x); }
};

const ActivationKernels& activations(ops::ActivationFormat format) {
  return activation_kernels(format, group_rows);
}

struct Entry {
  TensorType type;
  WeightKernels kernels;
};

Entry entry(TensorType type) {
  if (ops::activation_format(type) == ops::ActivationFormat::f32)
    return {type, float_kernels(type, group_rows)};
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

constexpr LinearKernels kernels = {"avx2",
                                   4,
                                   group_rows,
                                   panel_rows,
                                   finish_vectors<Floats8>,
                                   finish_glu_vectors<Floats8>,
                                   activations,
                                   weights};

}  // namespace

const LinearKernels* linear_kernels() {
  return &kernels;
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#else
namespace cera::cpu::avx2 {
const LinearKernels* linear_kernels() {
  return nullptr;
}
}  // namespace cera::cpu::avx2
#endif
