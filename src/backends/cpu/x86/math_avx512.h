#pragma once
// ops/math.h sixteen values at a time, the same operations in the same order. Included inside an
// avx512 region, after the intrinsics and ops/math.h.

namespace cera::cpu::avx512 {
namespace {

inline __m512 exp16(__m512 x) {
  const __mmask16 not_low = _mm512_cmp_ps_mask(x, _mm512_set1_ps(math::kExpLow), _CMP_NLT_UQ);
  x = _mm512_min_ps(_mm512_set1_ps(math::kExpHigh),
                    x);  // the second operand, so NaN, wins if unordered
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(math::kLog2e)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-math::kLn2High), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-math::kLn2Low), r);
  __m512 p = _mm512_set1_ps(math::kExpPolynomial[0]);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(math::kExpPolynomial[1]));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(math::kExpPolynomial[2]));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(math::kExpPolynomial[3]));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(math::kExpPolynomial[4]));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(math::kExpPolynomial[5]));
  const __m512 y = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_maskz_mul_ps(not_low, y, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)));
}

inline __m512 silu16(__m512 x) {
  const __m512 minus_x = _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exp16(minus_x)));
}

}  // namespace
}  // namespace cera::cpu::avx512
