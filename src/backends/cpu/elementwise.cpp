#include "backends/cpu/elementwise.h"

#include "base/assert.h"
#include "ops/math.h"

namespace cera::cpu {
namespace {

void silu(const float* x, float* y, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) y[i] = math::silu(x[i]);
}

void silu_times(const float* gate, const float* up, float* y, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) y[i] = math::silu(gate[i]) * up[i];
}

constexpr ElementwiseKernels kScalar = {math::rms_norm, silu, silu_times};

}  // namespace

const ElementwiseKernels& elementwise_kernels(CpuTier tier) {
  const ElementwiseKernels* kernels =
      tier >= CpuTier::avx2 ? avx2::elementwise_kernels() : &kScalar;
  CERA_ASSERT(kernels != nullptr);
  return *kernels;
}

}  // namespace cera::cpu
