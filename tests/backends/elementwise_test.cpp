#include "backends/cpu/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backends/cpu_tiers.h"
#include "backends/harness.h"
#include "ops/math.h"

namespace cera::cpu {
namespace {

void expect_same(const std::vector<float>& actual, const std::vector<float>& expected, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    ASSERT_TRUE(tests::same_value(actual[i], expected[i]))
        << "element " << i << " of " << n << ": " << actual[i] << " instead of " << expected[i];
  }
  EXPECT_EQ(actual[n], 7) << "written beyond the end";
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
