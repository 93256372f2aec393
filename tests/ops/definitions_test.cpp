// The definitions against independent arithmetic in double precision.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/float16.h"
#include "ops/attention.h"
#include "ops/math.h"
#include "ops/rope_store.h"
#include "ops/short_conv.h"

namespace cera {
namespace {

std::vector<float> random_values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& x : values) x = float(random()) / float(std::mt19937::max()) * 2 - 1;
  return values;
}

TEST(Math, ExpIsWithinTwoUlp) {
  float worst = 0;
  for (float x = math::kExpLow; x < math::kExpHigh; x += 0.00371f) {
    const double exact = std::exp(double(x));
    const float ulp = std::nextafter(float(exact), INFINITY) - float(exact);
    worst = std::max(worst, float(std::abs(double(math::exp(x)) - exact) / double(ulp)));
  }
  EXPECT_LE(worst, 2);
  EXPECT_GT(worst, 0.3) << "the measure itself works";
}

TEST(Math, ExpAtItsEnds) {
  EXPECT_EQ(math::exp(0), 1);
  EXPECT_EQ(math::exp(-0.0f), 1);
  EXPECT_EQ(math::exp(-INFINITY), 0);
  EXPECT_EQ(math::exp(-87.4f), 0);
  EXPECT_GT(math::exp(-87.32f), 0);
  EXPECT_EQ(math::exp(INFINITY), math::exp(math::kExpHigh));
  EXPECT_TRUE(std::isfinite(math::exp(INFINITY)));
  EXPECT_TRUE(std::isnan(math::exp(NAN)));
}

TEST(Math, RmsNormAndSilu) {
  const std::vector<float> x = random_values(100, 1), gain = random_values(100, 2);
  std::vector<float> y(100);
  math::rms_norm(x.data(), gain.data(), 0.01f, y.data(), 100);
  double squares = 0;
  for (float v : x) squares += double(v) * v;
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / 100 + 0.01) * gain[i], 1e-6);
    EXPECT_NEAR(math::silu(x[i] * 20), x[i] * 20 / (1 + std::exp(-20.0 * x[i])), 1e-5);
  }
}

TEST(RopeStore, TurnsPairsByAngle) {
  const RopeSpec halves = {RopePairs::halves, 4, {0.5, 0.01}, 1.5f};
  float cosines[2], sines[2];
  ops::rope_angles(halves, 7, cosines, sines);
  EXPECT_FLOAT_EQ(cosines[0], float(1.5 * std::cos(3.5)));
  EXPECT_FLOAT_EQ(sines[1], float(1.5 * std::sin(0.07)));
  float head[6] = {1, 2, 3, 4, 5, 6};
  ops::rotate_head(head, halves, cosines, sines);
  EXPECT_FLOAT_EQ(head[0], 1 * cosines[0] - 3 * sines[0]);
  EXPECT_FLOAT_EQ(head[2], 1 * sines[0] + 3 * cosines[0]);
  EXPECT_FLOAT_EQ(head[1], 2 * cosines[1] - 4 * sines[1]);
  EXPECT_EQ(head[4], 5) << "beyond n_dims nothing turns";
  RopeSpec adjacent = halves;
  adjacent.pairs = RopePairs::adjacent;
  float other[6] = {1, 2, 3, 4, 5, 6};
  ops::rotate_head(other, adjacent, cosines, sines);
  EXPECT_FLOAT_EQ(other[0], 1 * cosines[0] - 2 * sines[0]);
  EXPECT_FLOAT_EQ(other[1], 1 * sines[0] + 2 * cosines[0]);
  EXPECT_FLOAT_EQ(other[3], 3 * sines[1] + 4 * cosines[1]);
  EXPECT_EQ(other[5], 6);
}

TEST(RopeStore, StoresSaturated) {
  EXPECT_EQ(f16_to_f32(ops::store_f16(1.0f)), 1);
  EXPECT_EQ(f16_to_f32(ops::store_f16(1e6f)), 65504);
  EXPECT_EQ(f16_to_f32(ops::store_f16(-65519.0f)), -65504);
  EXPECT_EQ(f16_to_f32(ops::store_f16(-INFINITY)), -65504);
  EXPECT_TRUE(std::isnan(f16_to_f32(ops::store_f16(NAN))));
}

TEST(RopeStore, NormsPerHeadOrOverAll) {
  const std::vector<float> gain = random_values(8, 3);
  const std::vector<float> before = random_values(16, 4);  // 2 query heads, 1 key, 1 value
  RopeStoreOp op;
  op.n_heads = 2;
  op.n_kv_heads = 1;
  op.head_dim = 4;
  op.q_norm = {Vector(gain).first(8), 1e-6f};
  op.k_norm = {Vector(gain).first(4), 1e-6f};
  std::vector<float> row = before;
  ops::define_rope(op, {}, 3, row.data());
  double q_squares = 0, k_squares = 0;
  for (size_t i = 0; i < 8; ++i) q_squares += double(before[i]) * before[i];
  for (size_t i = 8; i < 12; ++i) k_squares += double(before[i]) * before[i];
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(row[i], before[i] / std::sqrt(q_squares / 8 + 1e-6) * gain[i], 1e-6);
  }
  for (size_t i = 8; i < 12; ++i) {
    EXPECT_NEAR(row[i], before[i] / std::sqrt(k_squares / 4 + 1e-6) * gain[i - 8], 1e-6);
  }
  for (size_t i = 12; i < 16; ++i) EXPECT_EQ(row[i], before[i]) << "values are stored as they are";
}

TEST(Attention, IsSoftmaxOverTheVisibleCells) {
  constexpr uint32_t n = 600, dim = 8;
  const std::vector<float> k = random_values(n * dim, 5), v = random_values(n * dim, 6);
  std::vector<float> q = random_values(dim, 7);
  for (float& x : q) x *= 6;
  for (uint32_t last : {0u, 1u, 255u, 256u, 599u}) {
    std::vector<double> expected(dim);
    double sum = 0;
    for (uint32_t cell = 0; cell <= last; ++cell) {
      double score = 0;
      for (uint32_t d = 0; d < dim; ++d) score += double(q[d]) * k[cell * dim + d];
      const double e = std::exp(score * 0.7);
      sum += e;
      for (uint32_t d = 0; d < dim; ++d) expected[d] += e * v[cell * dim + d];
    }
    std::vector<float> out(dim);
    const auto read = [&](const std::vector<float>& from) {
      return [&](uint32_t cell, uint32_t d) {
        EXPECT_LE(cell, last);
        return from[cell * dim + d];
      };
    };
    ops::define_attention(q.data(), dim, 0.7f, last, read(k), read(v), out.data());
    for (uint32_t d = 0; d < dim; ++d) EXPECT_NEAR(out[d], expected[d] / sum, 2e-6) << last;
  }
}

TEST(ShortConv, GatesAndRemembers) {
  // 2 channels, 3 taps; rows of [B | C | X].
  const float kernel[] = {1, 10, 100, 2, 20, 200};
  const float bcx[] = {1, 2, 3, 4, 5, 6, 2, 1, 1, -1, 0.5f, 3};
  float history[] = {7, 8, 9, 10}, out[4];
  ops::define_short_conv(kernel, 3, 2, bcx, out, 2, history);
  // u: channel 0: 5, 1; channel 1: 12, 3.
  EXPECT_EQ(out[0], 3 * (7 + 90 + 500));
  EXPECT_EQ(out[1], 4 * (16 + 200 + 2400));
  EXPECT_EQ(out[2], 1 * (9 + 50 + 100));
  EXPECT_EQ(out[3], -1 * (20 + 240 + 600));
  EXPECT_EQ(std::vector<float>(history, history + 4), (std::vector<float>{5, 12, 1, 3}));
}

}  // namespace
}  // namespace cera
