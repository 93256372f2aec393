// The avx512 tier of linear: quantised weights have kernels of their own, the rest is AVX2's.

#if defined(__x86_64__)
#include "backends/cpu/x86/avx512_intrinsics.h"

#include "backends/cpu/x86/linear_avx512.h"
#include "ops/math.h"

#include "backends/cpu/x86/avx512_begin.h"
#include "backends/cpu/x86/linear_finish.h"
#include "backends/cpu/x86/math_avx512.h"

namespace cera::cpu::avx512 {
namespace {

struct Floats16 {
  using Type = __m512;
  static constexpr uint32_t width = 16;
  static __mmask16 first(uint32_t n) { return __mmask16((1u << n) - 1); }
  static Type load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Type y) { _mm512_storeu_ps(to, y); }
  static Type load_part(const float* from, uint32_t n) {
    return _mm512_maskz_loadu_ps(first(n), from);
  }
  static void store_part(float* to, uint32_t n, Type y) { _mm512_mask_storeu_ps(to, first(n), y); }
  static Type set1(float x) { return _mm512_set1_ps(x); }
  static Type add(Type a, Type b) { return _mm512_add_ps(a, b); }
  static Type mul(Type a, Type b) { return _mm512_mul_ps(a, b); }
  static Type silu(Type x) { return silu16(x); }
};

const ActivationKernels& activations(ops::ActivationFormat format) {
  return avx2::activation_kernels(format, group_rows);
}

struct Entry {
  TensorType type;
  WeightKernels kernels;
};

Entry entry(TensorType type) {
  if (ops::activation_format(type) == ops::ActivationFormat::f32)
    return {type, avx2::float_kernels(type, group_rows)};
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

constexpr LinearKernels kernels = {"avx512",
                                   4,
                                   group_rows,
                                   panel_rows,
                                   avx2::finish_vectors<Floats16>,
                                   avx2::finish_glu_vectors<Floats16>,
                                   activations,
                                   weights};

}  // namespace

const LinearKernels* linear_kernels() {
  return &kernels;
}

}  // namespace cera::cpu::avx512

#include "backends/cpu/x86/avx512_end.h"
#else
#include "backends/cpu/linear_kernels.h"

namespace cera::cpu::avx512 {
const LinearKernels* linear_kernels() {
  return nullptr;
}
}  // namespace cera::cpu::avx512
#endif
