#include "backends/cpu/elementwise.h"

#include "base/assert.h"
#include "ops/math.h"

namespace cera::cpu {
namespace {

constexpr ElementwiseKernels kScalar = {math::rms_norm};

}  // namespace

const ElementwiseKernels& elementwise_kernels(CpuTier tier) {
  const ElementwiseKernels* kernels =
      tier >= CpuTier::avx2 ? avx2::elementwise_kernels() : &kScalar;
  CERA_ASSERT(kernels != nullptr);
  return *kernels;
}

}  // namespace cera::cpu
