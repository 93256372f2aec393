#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cera {
namespace {

TEST(Rope, PlainFrequenciesArePowersOfTheBase) {
  const RopeSpec spec = make_rope({.n_dims = 8, .base = 10000}, RopePairs::halves);
  ASSERT_EQ(spec.frequencies.size(), 4u);
  const double expected[] = {1, 0.1, 0.01, 0.001};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(spec.frequencies[i], expected[i], 1e-15);
  EXPECT_EQ(spec.magnitude, 1);
  EXPECT_EQ(spec.n_dims, 8u);
  EXPECT_EQ(spec.pairs, RopePairs::halves);
}

TEST(Rope, LinearDividesEveryFrequency) {
  const RopeConfig config{
      .n_dims = 8, .base = 10000, .scaling = RopeScaling::linear, .factor = 4, .attn_factor = 1.5};
  const RopeSpec spec = make_rope(config, RopePairs::adjacent);
  EXPECT_DOUBLE_EQ(spec.frequencies[0], 0.25);
  EXPECT_DOUBLE_EQ(spec.frequencies[3], 0.00025);
  EXPECT_FLOAT_EQ(spec.magnitude, 1.5f);
}

TEST(Rope, FactorsDivideOneFrequencyEach) {
  const std::vector<float> factors = {1, 2, 8, 32};
  const RopeSpec spec = make_rope({.n_dims = 8, .base = 10000}, RopePairs::adjacent, factors);
  EXPECT_DOUBLE_EQ(spec.frequencies[0], 1);
  EXPECT_DOUBLE_EQ(spec.frequencies[1], std::pow(10000, -0.25) / 2);
  EXPECT_DOUBLE_EQ(spec.frequencies[3], std::pow(10000, -0.75) / 32);
}

/// n = 16, base 100, original context 1024: pair 2.83 turns 32 times and pair 8.85 turns once, so
/// the ramp goes from 2 (all kept) to 9 (all divided).
TEST(Rope, YarnKeepsFastPairsAndDividesSlowOnes) {
  const RopeConfig config{.n_dims = 16,
                          .base = 100,
                          .scaling = RopeScaling::yarn,
                          .factor = 4,
                          .original_context = 1024};
  const RopeSpec spec = make_rope(config, RopePairs::halves);
  const auto plain = [](int i) { return std::pow(100, -i / 8.0); };
  for (int i = 0; i < 8; ++i) {
    const double keep = i <= 2 ? 1 : 1 - (i - 2) / 7.0;
    EXPECT_NEAR(spec.frequencies[i], plain(i) * (keep + (1 - keep) / 4), 1e-15) << i;
  }
  EXPECT_FLOAT_EQ(spec.magnitude, float(0.1 * std::log(4) + 1));
}

TEST(Rope, YarnSettings) {
  RopeConfig config{.n_dims = 16,
                    .base = 100,
                    .scaling = RopeScaling::yarn,
                    .factor = 4,
                    .original_context = 1024};
  config.yarn_attn_factor = 0.7;
  config.attn_factor = 2;
  EXPECT_FLOAT_EQ(make_rope(config, RopePairs::halves).magnitude, 1.4f);
  config.ext_factor = 0;  // no ramp, no magnitude of its own: linear
  const RopeSpec spec = make_rope(config, RopePairs::halves);
  EXPECT_FLOAT_EQ(spec.magnitude, 2);
  EXPECT_DOUBLE_EQ(spec.frequencies[0], 0.25);
}

}  // namespace
}  // namespace cera
