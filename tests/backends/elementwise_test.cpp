#include "backends/cpu/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu_tiers.h"
#include "backends/harness.h"
#include "ops/math.h"

namespace cera::cpu {
namespace {

/// Values of every size, the borders of exp among them.
std::vector<float> values(uint32_t n, uint32_t seed) {
  std::vector<float> x = {
      0.0f,     -0.0f,     math::kExpLow, -math::kExpLow, math::kExpHigh, -math::kExpHigh,
      INFINITY, -INFINITY, NAN,           88.03f,         -88.03f,        87.34f,
      1e-30f,   -1e-42f,   65504.0f,      -0.5f};
  std::minstd_rand random(seed);
  while (x.size() < n) {
    const float u = float(random()) / float(std::minstd_rand::max()) - 0.5f;
    x.push_back(u * float(1 << (random() % 9)));
  }
  std::shuffle(x.begin(), x.end(), random);
  x.resize(n);
  return x;
}

void expect_same(const std::vector<float>& actual, const std::vector<float>& expected, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    ASSERT_TRUE(tests::same_value(actual[i], expected[i]))
        << "element " << i << " of " << n << ": " << actual[i] << " instead of " << expected[i];
  }
  EXPECT_EQ(actual[n], 7) << "written beyond the end";
}

TEST(Elementwise, EveryTierHasTheBitsOfTheDefinition) {
  for (CpuTier tier : tests::available_tiers()) {
    const ElementwiseKernels& kernels = elementwise_kernels(tier);
    for (uint32_t n = 1; n <= 70; ++n) {
      const std::vector<float> x = values(n, n), up = values(n, n + 1000);
      std::vector<float> expected(n), actual(n + 1, 7.0f);
      for (uint32_t i = 0; i < n; ++i) expected[i] = math::silu(x[i]);
      kernels.silu(x.data(), actual.data(), n);
      expect_same(actual, expected, n);
      for (uint32_t i = 0; i < n; ++i) expected[i] *= up[i];
      kernels.silu_times(x.data(), up.data(), actual.data(), n);
      expect_same(actual, expected, n);
    }
  }
}

TEST(Elementwise, NormHasTheBitsOfTheDefinition) {
  for (CpuTier tier : tests::available_tiers()) {
    for (uint32_t n : {1, 7, 8, 9, 31, 64, 576, 1001}) {
      std::minstd_rand random(n);
      std::vector<float> x(n), gain(n), expected(n), actual(n + 1, 7.0f);
      for (uint32_t i = 0; i < n; ++i) {
        x[i] = float(random() % 2000) / 997 - 1;
        gain[i] = float(random() % 2000) / 1009;
      }
      math::rms_norm(x.data(), gain.data(), 1e-5f, expected.data(), n);
      elementwise_kernels(tier).rms_norm(x.data(), gain.data(), 1e-5f, actual.data(), n);
      expect_same(actual, expected, n);
      std::copy(x.begin(), x.end(), actual.begin());
      elementwise_kernels(tier).rms_norm(actual.data(), gain.data(), 1e-5f, actual.data(), n);
      expect_same(actual, expected, n);
    }
  }
}

}  // namespace
}  // namespace cera::cpu
