#include "backends/cpu/rope_store_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "ops/rope_store.h"

#include "backends/cpu/x86/avx2_begin.h"

namespace cera::cpu::avx2 {
namespace {

/// y0 = x0 * c - x1 * s; y1 = x0 * s + x1 * c, from element `i` (a multiple of 8) on; returns where
/// it stopped.
uint32_t rotate_halves(float* head, uint32_t n, const float* c, const float* s) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x0 = _mm256_loadu_ps(head + i), x1 = _mm256_loadu_ps(head + n + i);
    const __m256 cos = _mm256_loadu_ps(c + i), sin = _mm256_loadu_ps(s + i);
    _mm256_storeu_ps(head + i, _mm256_sub_ps(_mm256_mul_ps(x0, cos), _mm256_mul_ps(x1, sin)));
    _mm256_storeu_ps(head + n + i, _mm256_add_ps(_mm256_mul_ps(x0, sin), _mm256_mul_ps(x1, cos)));
  }
  return i;
}

/// Four pairs at a time: (x0, x1) * (c, c) -/+ (x1, x0) * (s, s).
uint32_t rotate_adjacent(float* head, uint32_t n, const float* c, const float* s) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  const auto spread = [&](const float* four) {
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(four)), twice);
  };
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256 x = _mm256_loadu_ps(head + 2 * i);
    const __m256 swapped = _mm256_permute_ps(x, 0xb1);
    _mm256_storeu_ps(head + 2 * i, _mm256_addsub_ps(_mm256_mul_ps(x, spread(c + i)),
                                                    _mm256_mul_ps(swapped, spread(s + i))));
  }
  return i;
}

void rotate(float* head, const RopeSpec& rope, const float* c, const float* s) {
  const uint32_t n = rope.n_dims / 2;
  const bool adjacent = rope.pairs == RopePairs::adjacent;
  const uint32_t done = adjacent ? rotate_adjacent(head, n, c, s) : rotate_halves(head, n, c, s);
  for (uint32_t i = done; i < n; ++i) {
    float& x0 = adjacent ? head[2 * i] : head[i];
    float& x1 = adjacent ? head[2 * i + 1] : head[i + n];
    const float y0 = x0 * c[i] - x1 * s[i];
    const float y1 = x0 * s[i] + x1 * c[i];
    x0 = y0;
    x1 = y1;
  }
}

/// Eight values as ops::store_f16 has them. The second operand of min and max, NaN included, wins
/// if unordered.
__m128i store8(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(-65504.0f), _mm256_min_ps(_mm256_set1_ps(65504.0f), x));
  return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

void store_f16(const float* from, uint32_t n, std::byte* to, size_t stride) {
  auto* out = reinterpret_cast<uint16_t*>(to);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8, out += 8 * stride) {
    const __m128i h = store8(_mm256_loadu_ps(from + i));
    if (stride == 1) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), h);
      continue;
    }
    out[0 * stride] = uint16_t(_mm_extract_epi16(h, 0));
    out[1 * stride] = uint16_t(_mm_extract_epi16(h, 1));
    out[2 * stride] = uint16_t(_mm_extract_epi16(h, 2));
    out[3 * stride] = uint16_t(_mm_extract_epi16(h, 3));
    out[4 * stride] = uint16_t(_mm_extract_epi16(h, 4));
    out[5 * stride] = uint16_t(_mm_extract_epi16(h, 5));
    out[6 * stride] = uint16_t(_mm_extract_epi16(h, 6));
    out[7 * stride] = uint16_t(_mm_extract_epi16(h, 7));
  }
  for (; i < n; ++i, out += stride) {
    *out = uint16_t(_mm_extract_epi16(store8(_mm256_set1_ps(from[i])), 0));
  }
}

void store_f32(const float* from, uint32_t n, std::byte* to, size_t stride) {
  auto* out = reinterpret_cast<float*>(to);
  for (uint32_t i = 0; i < n; ++i) out[i * stride] = from[i];
}

constexpr RopeStoreKernels kKernels = {rotate, {store_f16, store_f32}, "avx2"};

}  // namespace

const RopeStoreKernels* rope_store_kernels() {
  return &kKernels;
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#else
namespace cera::cpu::avx2 {
const RopeStoreKernels* rope_store_kernels() {
  return nullptr;
}
}  // namespace cera::cpu::avx2
#endif
