// The avx512 tier of linear: quantised weights have kernels of their own, the rest is AVX2's.

#include "backends/cpu/x86/linear_avx512.h"

namespace cera::cpu::avx512 {
#if defined(__x86_64__)
namespace {

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

constexpr LinearKernels kernels = {"avx512",     4,
                                   group_rows,   panel_rows,
                                   avx2::finish, avx2::finish_glu,
                                   activations,  weights};

}  // namespace

const LinearKernels* linear_kernels() { return &kernels; }
#else
const LinearKernels* linear_kernels() { return nullptr; }
#endif
}  // namespace cera::cpu::avx512
