#include "backends/cpu/elementwise.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>

#include "ops/math.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/math_avx2.h"

namespace cera::cpu::avx2 {
namespace {

/// Calls block(i, mask) for every 8 elements, the mask covering those below n.
template <class Block>
inline __attribute__((always_inline)) void for_blocks(uint32_t n, Block block) {
  const __m256i all = _mm256_set1_epi32(-1);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) block(i, all);
  if (i < n) block(i, first_lanes(n - i));
}

void rms_norm(const float* x, const float* gain, float eps, float* y, uint32_t n) {
  // A masked lane adds 0 * 0, which leaves a sum of squares as it is.
  __m256 lanes = _mm256_setzero_ps();
  for_blocks(n, [&](uint32_t i, __m256i mask) {
    const __m256 v = _mm256_maskload_ps(x + i, mask);
    lanes = _mm256_fmadd_ps(v, v, lanes);
  });
  const __m256 inverse = _mm256_set1_ps(1.0f / std::sqrt(join8(lanes) / float(n) + eps));
  for_blocks(n, [&](uint32_t i, __m256i mask) {
    const __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), inverse);
    _mm256_maskstore_ps(y + i, mask, _mm256_mul_ps(v, _mm256_maskload_ps(gain + i, mask)));
  });
}

constexpr ElementwiseKernels kKernels = {rms_norm};

}  // namespace

const ElementwiseKernels* elementwise_kernels() {
  return &kKernels;
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#else
namespace cera::cpu::avx2 {
const ElementwiseKernels* elementwise_kernels() {
  return nullptr;
}
}  // namespace cera::cpu::avx2
#endif
