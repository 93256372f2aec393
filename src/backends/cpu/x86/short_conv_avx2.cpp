#include "backends/cpu/short_conv_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>

#include "ops/math.h"

#include "backends/cpu/x86/avx2_begin.h"
#include "backends/cpu/x86/math_avx2.h"

namespace cera::cpu::avx2 {
namespace {

void conv_block(const ConvRow& row, uint32_t c, __m256i mask) {
  __m256 y = _mm256_setzero_ps();
  for (uint32_t j = 0; j < row.taps; ++j) {
    __m256 u = _mm256_maskload_ps(row.b[j] + c, mask);
    if (row.x[j]) u = _mm256_mul_ps(u, _mm256_maskload_ps(row.x[j] + c, mask));
    const __m256 tap = _mm256_maskload_ps(row.kernel + size_t(j) * row.width + c, mask);
    y = _mm256_fmadd_ps(tap, u, y);
  }
  _mm256_maskstore_ps(row.out + c, mask, _mm256_mul_ps(_mm256_maskload_ps(row.gate + c, mask), y));
}

void conv_row(const ConvRow& row, uint32_t n) {
  uint32_t c = 0;
  for (; c + 8 <= n; c += 8) conv_block(row, c, _mm256_set1_epi32(-1));
  if (c < n) conv_block(row, c, first_lanes(n - c));
}

constexpr ShortConvKernels kKernels = {conv_row, "avx2"};

}  // namespace

const ShortConvKernels* short_conv_kernels() {
  return &kKernels;
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#else
namespace cera::cpu::avx2 {
const ShortConvKernels* short_conv_kernels() {
  return nullptr;
}
}  // namespace cera::cpu::avx2
#endif
