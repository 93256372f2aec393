// Packing has no reference to agree with bit by bit: what it must keep is the error.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "quant/types.h"

namespace cera {
namespace {

constexpr size_t n = 256;  // a multiple of every block size
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normal(uint32_t seed, float scale, float mean = 0.0f, size_t count = n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, scale);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

std::vector<std::byte> packed(const TypeInfo& type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() / type.block_size * type.block_bytes);
  type.pack(values.data(), bytes.data(), values.size());
  return bytes;
}

std::vector<float> unpacked(const TypeInfo& type, const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / type.block_bytes * type.block_size);
  type.unpack(bytes.data(), values.data(), values.size());
  return values;
}

std::vector<float> round_trip(const TypeInfo& type, const std::vector<float>& values) {
  return unpacked(type, packed(type, values));
}

double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
  return std::sqrt(sum / double(a.size()));
}

struct Bound {
  TensorType type;
  double worst;    // largest error of a value, as a part of its block's range (which includes 0)
  double typical;  // root mean square error of normal values of deviation 1
};

// worst: a symmetric type of 2^b codes loses up to one step of range/2^b at the end that has no
// code; one with a minimum half a step. Scales of K-quants are rounded as well, by up to 1/126 or
// 1/256 of the largest.
constexpr double half_ulp = 1.0 / 2048;  // of f16
constexpr Bound bounds[] = {
    {TensorType::f32, 0.0, 0.0},
    {TensorType::f16, half_ulp, 2.2e-4},
    {TensorType::bf16, 1.0 / 256, 1.8e-3},
    {TensorType::q4_0, 1.0 / 8 + half_ulp, 0.090},
    {TensorType::q4_1, 0.5 / 15 + 2 * half_ulp, 0.080},
    {TensorType::q5_0, 1.0 / 16 + half_ulp, 0.044},
    {TensorType::q5_1, 0.5 / 31 + 2 * half_ulp, 0.039},
    {TensorType::q8_0, 0.5 / 127 + half_ulp, 0.0055},
    {TensorType::q4_k, 0.5 / 15 + 2.0 / 126 + 2 * half_ulp, 0.081},
    {TensorType::q5_k, 0.5 / 31 + 2.0 / 126 + 2 * half_ulp, 0.041},
    {TensorType::q6_k, 1.0 / 32 + 2.0 / 256 + half_ulp, 0.020},
};

/// Largest error divided by the range of the 256 values (with 0).
double worst_error(const TypeInfo& type, const std::vector<float>& values) {
  const auto back = round_trip(type, values);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double range = std::max(0.0, double(*high)) - std::min(0.0, double(*low));
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::fabs(double(values[i]) - double(back[i])));
  return range == 0 ? worst : worst / range;
}

class Pack : public testing::TestWithParam<Bound> {
 protected:
  const TypeInfo& type() const { return type_info(GetParam().type); }
};

TEST_P(Pack, ErrorStaysInsideTheBound) {
  const double bound = GetParam().worst;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    for (const float scale : {1e-2f, 1.0f, 1e3f}) {
      EXPECT_LE(worst_error(type(), normal(seed, scale)), bound) << seed << " " << scale;
      EXPECT_LE(worst_error(type(), normal(seed, scale, 5 * scale)), bound) << seed << " " << scale;
      EXPECT_LE(worst_error(type(), normal(seed, scale, -5 * scale)), bound) << seed;
      auto outlier = normal(seed, scale);
      outlier[seed % n] = seed % 2 ? 30 * scale : -30 * scale;
      EXPECT_LE(worst_error(type(), outlier), bound) << seed << " " << scale;
    }
  }
}

TEST_P(Pack, TypicalErrorIsThatOfTheFormat) {
  const auto values = normal(1, 1.0f, 0.0f, 64 * n);
  const double error = rms_difference(values, round_trip(type(), values));
  RecordProperty("rms", std::to_string(error));
  EXPECT_LE(error, GetParam().typical);
  EXPECT_GE(error, GetParam().typical * 0.8);
}

TEST_P(Pack, ZerosStayZeros) {
  for (const float zero : {0.0f, -0.0f}) {
    const auto back = round_trip(type(), std::vector<float>(n, zero));
    for (const float value : back) EXPECT_EQ(value, 0.0f);
  }
}

TEST_P(Pack, ConstantsSurvive) {
  for (const float constant : {1.0f, -1.0f, 0.37f, -1234.5f}) {
    const auto back = round_trip(type(), std::vector<float>(n, constant));
    const double allowed =
        std::fabs(constant) * (GetParam().type == TensorType::bf16 ? 0.004 : 0.002);
    for (const float value : back) EXPECT_NEAR(value, constant, allowed);
  }
}

TEST_P(Pack, PackingAgainChangesLittle) {
  const auto values = normal(3, 1.0f, 0.0f, 16 * n);
  const auto once = round_trip(type(), values);
  const auto twice = round_trip(type(), once);
  EXPECT_LE(rms_difference(once, twice), 0.1 * rms_difference(values, once));
}

TEST_P(Pack, BlocksAreIndependent) {
  const auto first = normal(5, 1.0f), second = normal(6, 100.0f);
  auto both = first;
  both.insert(both.end(), second.begin(), second.end());
  auto bytes = packed(type(), first);
  const auto more = packed(type(), second);
  bytes.insert(bytes.end(), more.begin(), more.end());
  EXPECT_EQ(packed(type(), both), bytes);
  type().pack(nullptr, nullptr, 0);
  type().unpack(nullptr, nullptr, 0);
}

TEST_P(Pack, TinyValuesGiveNoGarbage) {
  for (const float scale : {1e-6f, 1e-10f, 1e-38f, 1e-44f}) {
    const auto back = round_trip(type(), normal(8, scale));
    for (const float value : back) EXPECT_LE(std::fabs(value), 8 * scale);
  }
}

TEST_P(Pack, NonFiniteInputGivesFiniteBlocks) {
  constexpr float huge = std::numeric_limits<float>::max();
  for (const float odd : {not_a_number, infinity, -infinity, huge, -huge}) {
    for (const size_t every : {1, 2, 37, 256}) {
      auto values = normal(9, 1.0f);
      for (size_t i = 0; i < n; i += every) values[i] = odd;
      if (every == 2) values[1] = -odd;
      const auto back = round_trip(type(), values);
      if (type().block_size == 1) continue;  // the float types keep what they can hold
      for (const float value : back) EXPECT_TRUE(std::isfinite(value)) << odd << " " << every;
    }
  }
}

TEST_P(Pack, AnyBytesUnpack) {
  std::mt19937 random(11);
  std::vector<std::byte> bytes(n / type().block_size * type().block_bytes + 1);
  std::vector<float> values(n);
  for (int round = 0; round < 200; ++round) {
    for (std::byte& byte : bytes) byte = std::byte(random());
    type().unpack(bytes.data() + round % 2, values.data(), n);  // odd addresses too
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Pack, testing::ValuesIn(bounds), [](const auto& param_info) {
  return std::string(type_info(param_info.param.type).name);
});

TEST(Pack, FloatTypesKeepInfinityAndNaN) {
  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
    const auto back = round_trip(type_info(type), {infinity, -infinity, not_a_number, 1.0f});
    EXPECT_EQ(back[0], infinity);
    EXPECT_EQ(back[1], -infinity);
    EXPECT_TRUE(std::isnan(back[2]));
    EXPECT_EQ(back[3], 1.0f);
  }
}

TEST(Pack, SignedExtremeOfQ4HasACodeOfItsOwn) {
  for (const float sign : {1.0f, -1.0f}) {
    std::vector<float> values(32);
    for (size_t i = 0; i < 32; ++i) values[i] = sign * float(int(i % 16) - 8);  // -8 .. 7
    EXPECT_EQ(round_trip(type_info(TensorType::q4_0), values), values);
  }
}

}  // namespace
}  // namespace cera
