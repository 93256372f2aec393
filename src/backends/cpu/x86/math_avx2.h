#pragma once
// ops/math.h eight values at a time, the same operations in the same order. Included inside an AVX2
// region (avx2_begin.h), after <immintrin.h> and ops/math.h.

namespace cera::cpu::avx2 {
namespace {

inline __m256 exp8(__m256 x) {
  const __m256 too_low = _mm256_cmp_ps(x, _mm256_set1_ps(math::kExpLow), _CMP_LT_OQ);
  x = _mm256_min_ps(_mm256_set1_ps(math::kExpHigh),
                    x);  // the second operand, so NaN, wins if unordered
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(math::kLog2e)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-math::kLn2High), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-math::kLn2Low), r);
  __m256 p = _mm256_set1_ps(math::kExpPolynomial[0]);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(math::kExpPolynomial[1]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(math::kExpPolynomial[2]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(math::kExpPolynomial[3]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(math::kExpPolynomial[4]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(math::kExpPolynomial[5]));
  const __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  const __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  return _mm256_andnot_ps(too_low, _mm256_mul_ps(y, power));
}

inline __m256 silu8(__m256 x) {
  const __m256 minus_x = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), exp8(minus_x)));
}

/// math::join_lanes
inline float join8(__m256 lanes) {
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}

/// All bits set in the first n (0 to 8) lanes.
inline __m256i first_lanes(uint32_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace cera::cpu::avx2
