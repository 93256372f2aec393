#pragma once
// Row-wise functions shared by several ops, per tier. All tiers give the bits of ops/math.h.

#include <cstdint>

#include "base/cpu_info.h"

namespace cera::cpu {

struct ElementwiseKernels {
  /// math::rms_norm. x and y may be the same.
  void (*rms_norm)(const float* x, const float* gain, float eps, float* y, uint32_t n);
};

const ElementwiseKernels& elementwise_kernels(CpuTier tier);

namespace avx2 {
/// nullptr where the build has no x86 code.
const ElementwiseKernels* elementwise_kernels();
}  // namespace avx2

}  // namespace cera::cpu
