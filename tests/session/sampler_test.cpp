#include "session/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

namespace cera {
namespace {

using text::TokenId;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Everything off: plain softmax sampling.
SamplerOptions plain(uint64_t seed = 1) {
  SamplerOptions o;
  o.temperature = 1;
  o.top_k = 0;
  o.top_p = 1;
  o.min_p = 0;
  o.seed = seed;
  return o;
}

SamplerOptions greedy() {
  SamplerOptions o = plain();
  o.temperature = 0;
  return o;
}

Sampler make(const SamplerOptions& options) {
  return Sampler::make(options).value();
}

TokenId pick(const SamplerOptions& options, const std::vector<float>& logits,
             const std::vector<TokenId>& history = {}) {
  Sampler sampler = make(options);
  return sampler.sample(logits, history).value();
}

/// Shares of n draws by token.
std::map<TokenId, double> shares(const SamplerOptions& options, const std::vector<float>& logits,
                                 int n = 20000, const std::vector<TokenId>& history = {}) {
  Sampler sampler = make(options);
  std::map<TokenId, double> result;
  for (int i = 0; i < n; ++i) result[sampler.sample(logits, history).value()] += 1.0 / n;
  return result;
}

std::vector<TokenId> keys(const std::map<TokenId, double>& shares) {
  std::vector<TokenId> result;
  for (const auto& [id, share] : shares) result.push_back(id);
  return result;
}

std::vector<float> logs(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

TEST(Sampler, GreedyTakesTheLowestIdOnTies) {
  EXPECT_EQ(pick(greedy(), {1, 3, 3, 2}), 1);
  EXPECT_EQ(pick(greedy(), {5, 5, 5, 5, 5, 5, 5, 5, 5, 5}), 0);
  EXPECT_EQ(pick(greedy(), {-0.0f, 0.0f}), 0);
  EXPECT_EQ(pick(greedy(), {-kInfinity, -7, -kInfinity}), 1);
  // The largest in every place of the scan's blocks and of its remainder.
  for (size_t at = 0; at < 21; ++at) {
    std::vector<float> logits(21, -1);
    logits[at] = 1;
    EXPECT_EQ(pick(greedy(), logits), TokenId(at));
  }
}

TEST(Sampler, NonFiniteLogitsAreAnError) {
  for (const float bad : {kNan, kInfinity, -kNan}) {
    for (size_t at : {0u, 7u, 8u, 16u}) {
      std::vector<float> logits(17, 0.5f);
      logits[at] = bad;
      for (const SamplerOptions& o : {greedy(), plain(), SamplerOptions{}}) {
        Sampler sampler = make(o);
        const auto result = sampler.sample(logits, {});
        ASSERT_FALSE(result.has_value()) << at;
        EXPECT_EQ(result.error().code, ErrorCode::numeric);
      }
    }
  }
}

TEST(Sampler, NoTokenAllowedIsAnError) {
  Sampler sampler = make(plain());
  const std::vector<float> none(5, -kInfinity);
  EXPECT_EQ(sampler.sample(none, {}).error().code, ErrorCode::numeric);
  EXPECT_EQ(sampler.sample({}, {}).error().code, ErrorCode::numeric);

  SamplerOptions o = plain();  // P5: everything forbidden by bias
  o.logit_bias = {{0, -kInfinity}, {1, -kInfinity}};
  Sampler biased = make(o);
  const auto result = biased.sample(std::vector<float>{1, 2}, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("no token is allowed"), std::string::npos);
}

TEST(Sampler, PlainSamplingFollowsTheSoftmax) {
  const auto got = shares(plain(3), logs({0.5f, 0.3f, 0.15f, 0.05f}));
  EXPECT_NEAR(got.at(0), 0.5, 0.015);
  EXPECT_NEAR(got.at(1), 0.3, 0.015);
  EXPECT_NEAR(got.at(2), 0.15, 0.01);
  EXPECT_NEAR(got.at(3), 0.05, 0.01);
}

TEST(Sampler, TemperatureScalesLogits) {
  SamplerOptions o = plain(4);
  o.temperature = 0.5f;  // squares the probabilities
  const auto got = shares(o, logs({0.6f, 0.4f}));
  EXPECT_NEAR(got.at(0), 0.36 / (0.36 + 0.16), 0.015);
  o.temperature = 1e-30f;
  EXPECT_EQ(keys(shares(o, {1, 2, 1.9999f}, 100)), std::vector<TokenId>{1});
  o.temperature = 1e30f;
  EXPECT_NEAR(shares(o, {0, 20}).at(0), 0.5, 0.015);
}

TEST(Sampler, TopKKeepsTheLowestIdsOnTies) {
  SamplerOptions o = plain(5);
  o.top_k = 3;
  EXPECT_EQ(keys(shares(o, {1, 2, 1, 1, 2, 1}, 500)), (std::vector<TokenId>{0, 1, 4}));
  o.top_k = 1;
  EXPECT_EQ(keys(shares(o, {1, 2, 2, 1}, 50)), std::vector<TokenId>{1});
  o.top_k = 100;  // more than there are
  EXPECT_EQ(shares(o, {1, 2, 2, 1}, 2000).size(), 4u);
}

TEST(Sampler, TopKAgreesWithASort) {
  Random random(9);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits(size_t(20 + random.below(200)));
    for (float& x : logits) x = float(random.below(40)) - 20;  // many ties
    SamplerOptions o = plain(uint64_t(round));
    o.temperature = 1000;
    o.top_k = uint32_t(1 + random.below(10));
    std::vector<TokenId> ids(logits.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = TokenId(i);
    std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
      return std::pair(-logits[size_t(a)], a) < std::pair(-logits[size_t(b)], b);
    });
    ids.resize(o.top_k);
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(keys(shares(o, logits, 400)), ids);
  }
}

TEST(Sampler, TopPKeepsTheShortestRun) {
  SamplerOptions o = plain(6);
  const auto logits = logs({0.05f, 0.4f, 0.1f, 0.3f, 0.15f});
  o.top_p = 0.65f;
  EXPECT_EQ(keys(shares(o, logits, 2000)), (std::vector<TokenId>{1, 3}));
  o.top_p = 0.72f;
  EXPECT_EQ(keys(shares(o, logits, 2000)), (std::vector<TokenId>{1, 3, 4}));
  o.top_p = 0;
  EXPECT_EQ(keys(shares(o, logits, 100)), std::vector<TokenId>{1});
  // The shares of those kept stay in proportion.
  o.top_p = 0.65f;
  EXPECT_NEAR(shares(o, logits).at(1), 0.4 / 0.7, 0.015);
}

TEST(Sampler, TopPWithoutTopKAgreesWithASort) {
  Random random(10);
  for (int round = 0; round < 30; ++round) {
    std::vector<float> logits(500);
    for (float& x : logits) x = float(random.uniform() * 12 - 6);
    SamplerOptions o = plain(uint64_t(round));
    o.top_p = float(0.05 + 0.3 * random.uniform());
    std::vector<std::pair<double, TokenId>> sorted;
    double total = 0, sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      sorted.push_back({-std::exp(double(logits[i])), TokenId(i)});
      total -= sorted.back().first;
    }
    std::sort(sorted.begin(), sorted.end());
    std::vector<TokenId> expected;
    for (const auto& [weight, id] : sorted) {
      expected.push_back(id);
      sum -= weight;
      if (sum >= double(o.top_p) * total) break;
    }
    std::sort(expected.begin(), expected.end());
    for (const auto& [id, share] : shares(o, logits, 3000))
      EXPECT_TRUE(std::binary_search(expected.begin(), expected.end(), id)) << id;
    EXPECT_GE(shares(o, logits, 3000).size(), (expected.size() + 1) / 2);
  }
}

TEST(Sampler, MinPIsRelativeToTheMostLikely) {
  SamplerOptions o = plain(7);
  const auto logits = logs({0.5f, 0.26f, 0.2f, 0.04f});
  o.min_p = 0.5f;  // at least 0.25
  EXPECT_EQ(keys(shares(o, logits, 2000)), (std::vector<TokenId>{0, 1}));
  o.min_p = 0.3f;
  EXPECT_EQ(keys(shares(o, logits, 2000)), (std::vector<TokenId>{0, 1, 2}));
}

TEST(Sampler, OneCandidateAlwaysRemains) {  // P4
  SamplerOptions o = plain(8);
  o.top_p = 0;
  o.min_p = 1.5f;
  EXPECT_EQ(keys(shares(o, {0, 3, 1}, 50)), std::vector<TokenId>{1});
  o.top_k = 1;
  EXPECT_EQ(keys(shares(o, {0, 3, 3}, 50)), std::vector<TokenId>{1});
  o.top_p = 1;
  EXPECT_EQ(keys(shares(o, {-kInfinity, -kInfinity, 3}, 50)), std::vector<TokenId>{2});
}

TEST(Sampler, FiltersRunInTheDocumentedOrder) {
  SamplerOptions o = plain(11);
  // Top-p counts over what top-k left: of {0.4, 0.3} the first alone has 0.57 >= 0.55.
  const auto logits = logs({0.4f, 0.3f, 0.2f, 0.1f});
  o.top_k = 2;
  o.top_p = 0.55f;
  EXPECT_EQ(keys(shares(o, logits, 500)), std::vector<TokenId>{0});
  o.top_k = 0;
  EXPECT_EQ(keys(shares(o, logits, 500)), (std::vector<TokenId>{0, 1}));
  // Temperature comes before top-p: at 0.25 the first has 0.70 of the weight.
  o.temperature = 0.25f;
  EXPECT_EQ(keys(shares(o, logits, 500)), std::vector<TokenId>{0});
  // ... and before min-p.
  o = plain(12);
  o.min_p = 0.45f;
  EXPECT_EQ(shares(o, logits, 1000).size(), 3u);
  o.temperature = 0.5f;
  EXPECT_EQ(shares(o, logits, 1000).size(), 2u);
  // Min-p comes after top-p: it would leave {0.4, 0.3}, of which the first alone reaches 0.55.
  o = plain(13);
  o.top_p = 0.55f;
  o.min_p = 0.7f;
  EXPECT_EQ(shares(o, logs({0.4f, 0.3f, 0.15f, 0.15f}), 500).size(), 2u);
}

TEST(Sampler, PenaltiesAreExact) {
  SamplerOptions o = greedy();
  o.repetition_penalty = 2;
  EXPECT_EQ(pick(o, {4, 2.1f, 0}, {0}), 1);        // 4 / 2 < 2.1
  EXPECT_EQ(pick(o, {4, 1.9f, 0}, {0}), 0);        // 4 / 2 > 1.9
  EXPECT_EQ(pick(o, {-1, -1.9f, -9}, {0}), 1);     // -1 * 2 < -1.9
  EXPECT_EQ(pick(o, {4, 2.1f, 0}, {0, 0, 0}), 1);  // a set: once, however often
  o = greedy();
  o.frequency_penalty = 0.5f;
  EXPECT_EQ(pick(o, {4, 3, 0}, {0}), 0);           // 3.5 > 3
  EXPECT_EQ(pick(o, {4, 2.9f, 0}, {0, 0, 0}), 1);  // 2.5 < 2.9
  o = greedy();
  o.presence_penalty = 1.5f;
  EXPECT_EQ(pick(o, {4, 2.6f, 0}, {0, 0, 0}), 1);    // 2.5 < 2.6
  EXPECT_EQ(pick(o, {4, 2.4f, 0}, {0, 0, 0}), 0);    // presence counts once
  EXPECT_EQ(pick(o, {4, 2.4f, 0}, {-1, 3, 99}), 0);  // unknown ids are ignored
  // Repetition first, then the others: 4 / 2 - 0.5 * 2 - 0.25 = 0.75
  o = greedy();
  o.repetition_penalty = 2;
  o.frequency_penalty = 0.5f;
  o.presence_penalty = 0.25f;
  EXPECT_EQ(pick(o, {4, 0.76f}, {0, 0}), 1);
  EXPECT_EQ(pick(o, {4, 0.74f}, {0, 0}), 0);
}

TEST(Sampler, PenaltyWindowLimitsTheHistory) {
  SamplerOptions o = greedy();
  o.presence_penalty = 5;
  o.penalty_window = 2;
  EXPECT_EQ(pick(o, {4, 2, 0}, {0, 1, 2}), 0);
  EXPECT_EQ(pick(o, {4, 2, 0}, {1, 0, 2}), 1);
  o.penalty_window = 0;  // all
  std::vector<TokenId> history(1000, 2);
  history.front() = 0;
  EXPECT_EQ(pick(o, {4, 2, 0}, history), 1);
}

TEST(Sampler, CountsDoNotLeakIntoTheNextCall) {
  SamplerOptions o = greedy();
  o.frequency_penalty = 1;
  Sampler sampler = make(o);
  const std::vector<float> logits = {4, 2.5f, 0};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sampler.sample(logits, std::vector<TokenId>{0}).value(), 0);
  EXPECT_EQ(sampler.sample(logits, std::vector<TokenId>{0, 0}).value(), 1);
}

TEST(Sampler, BiasComesBeforePenalties) {
  SamplerOptions o = greedy();
  o.logit_bias = {{0, 3}};
  EXPECT_EQ(pick(o, {1, 2}), 0);
  o.logit_bias = {{1, -kInfinity}};
  EXPECT_EQ(pick(o, {1, 2}), 0);
  // (1 + 3) / 4 = 1 < 2; the other order would give 1 / 4 + 3 = 3.25
  o.logit_bias = {{0, 3}};
  o.repetition_penalty = 4;
  EXPECT_EQ(pick(o, {1, 2}, {0}), 1);
  o.logit_bias = {{7, 3}};
  Sampler sampler = make(o);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 2}, {}).error().code, ErrorCode::invalid_argument);
}

TEST(Sampler, SeedsReproduceAndDiffer) {
  const std::vector<float> logits(100, 0);
  const auto draws = [&](Sampler sampler) {
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(sampler.sample(logits, {}).value());
    return ids;
  };
  EXPECT_EQ(draws(make(plain(42))), draws(make(plain(42))));
  EXPECT_NE(draws(make(plain(42))), draws(make(plain(43))));
  // P8: the seed that was drawn is reported and repeats the text.
  SamplerOptions o = plain();
  o.seed.reset();
  Sampler fresh = make(o);
  const uint64_t seed = fresh.seed();
  EXPECT_EQ(draws(std::move(fresh)), draws(make(plain(seed))));
  EXPECT_NE(seed, make(o).seed());
}

TEST(Sampler,
     KnownRandomNumbers) {  // xoshiro256++ seeded by splitmix64(0), its published first values
  Random random(0);
  EXPECT_EQ(random.next(), 0x53175d61490b23dfu);
  EXPECT_EQ(random.next(), 0x61da6f3dc380d507u);
}

TEST(Sampler, RefusesSettingsOutOfRange) {
  const auto refused = [](auto change) {
    SamplerOptions o;
    change(o);
    const auto result = Sampler::make(o);
    return !result.has_value() && result.error().code == ErrorCode::invalid_argument;
  };
  EXPECT_TRUE(refused([](auto& o) { o.temperature = -1; }));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = kNan; }));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = kInfinity; }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = 1.1f; }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = kNan; }));
  EXPECT_TRUE(refused([](auto& o) { o.min_p = -0.1f; }));
  EXPECT_TRUE(refused([](auto& o) { o.repetition_penalty = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.frequency_penalty = kInfinity; }));
  EXPECT_TRUE(refused([](auto& o) { o.logit_bias = {{1, kInfinity}}; }));
  EXPECT_TRUE(refused([](auto& o) { o.logit_bias = {{1, kNan}}; }));
  EXPECT_FALSE(refused([](auto& o) { o.logit_bias = {{1, -kInfinity}}; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

}  // namespace
}  // namespace cera
