#pragma once
// The elementary functions and reductions that ops are defined with. Vector kernels repeat these
// operations in the same order on the same values, so that every tier gives the same bits.

#include <bit>
#include <cmath>
#include <cstdint>

namespace cera::math {

inline constexpr float kExpLow = -87.33f;  // below: exactly 0
inline constexpr float kExpHigh = 88.02f;  // above: saturates at exp(kExpHigh)
inline constexpr float kLog2e = 1.44269504f;
inline constexpr float kLn2High = 0.693359375f;  // exact in 10 bits: n * kLn2High has no rounding
inline constexpr float kLn2Low = -2.12194440e-4f;
// Minimax polynomial of (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2] (Cephes expf), highest power first.
inline constexpr float kExpPolynomial[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                            4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

/// e^x within 2 ulp; NaN for NaN.
inline float exp(float x) {
  if (x != x) return x;
  if (x < kExpLow) return 0.0f;
  if (x > kExpHigh) x = kExpHigh;
  const float n = std::nearbyintf(x * kLog2e);
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  float p = kExpPolynomial[0];
  for (int i = 1; i < 6; ++i) p = std::fma(p, r, kExpPolynomial[i]);
  const float y = std::fma(p, r * r, r) + 1.0f;
  return y * std::bit_cast<float>(uint32_t(int32_t(n) + 127) << 23);
}

/// x * sigmoid(x)
inline float silu(float x) {
  return x / (1.0f + exp(-x));
}

/// Joins 8 lane sums: lane j with j + 4, then with j + 2, then with j + 1.
inline float join_lanes(const float lanes[8]) {
  const float t0 = lanes[0] + lanes[4], t1 = lanes[1] + lanes[5];
  const float t2 = lanes[2] + lanes[6], t3 = lanes[3] + lanes[7];
  return (t0 + t2) + (t1 + t3);
}

/// sum of a[i] * b[i] with lane i mod 8 by fma, lanes joined by join_lanes.
inline float dot(const float* a, const float* b, uint32_t n) {
  float lanes[8] = {};
  for (uint32_t i = 0; i < n; ++i) lanes[i % 8] = std::fma(a[i], b[i], lanes[i % 8]);
  return join_lanes(lanes);
}

/// y = x * (1 / sqrt(mean(x^2) + eps)) * gain, the product taken left to right. x and y may be the
/// same.
inline void rms_norm(const float* x, const float* gain, float eps, float* y, uint32_t n) {
  const float inverse = 1.0f / std::sqrt(dot(x, x, n) / float(n) + eps);
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] * inverse * gain[i];
}

}  // namespace cera::math
