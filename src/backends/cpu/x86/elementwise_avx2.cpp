#include "backends/cpu/elementwise.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>

#include "ops/math.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/math_avx2.h"

namespace cera::cpu::avx2 {
namespace {

// Whole vectors are not stored through a mask: on some processors that takes ten times as long.
void rms_norm(const float* x, const float* gain, float eps, float* y, uint32_t n) {
  const uint32_t whole = n / 8 * 8;
  const __m256i rest = first_lanes(n - whole);
  __m256 lanes = _mm256_setzero_ps();
  for (uint32_t i = 0; i < whole; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    lanes = _mm256_fmadd_ps(v, v, lanes);
  }
  // A masked lane adds 0 * 0, which leaves a sum of squares as it is.
  const __m256 last = _mm256_maskload_ps(x + whole, rest);
  lanes = _mm256_fmadd_ps(last, last, lanes);
  const __m256 inverse = _mm256_set1_ps(1.0f / std::sqrt(join8(lanes) / float(n) + eps));
  for (uint32_t i = 0; i < whole; i += 8) {
    const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), inverse);
    _mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(gain + i)));
  }
  if (whole == n) return;
  const __m256 v = _mm256_mul_ps(last, inverse);
  _mm256_maskstore_ps(y + whole, rest, _mm256_mul_ps(v, _mm256_maskload_ps(gain + whole, rest)));
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
