// The logits of tiny models against those of transformers, and the promise that a row's logits are
// the same bits however it came to be computed.

#include <gtest/gtest.h>

#include "models/runner.h"
#include "models/tiny_model.h"

namespace cera::tests {
namespace {

// Keys and values kept exactly leave only float32's own noise: transformers' float32 is 1e-6 to
// 3e-6 away from its float64. Kept as f16, each is rounded by up to 2^-11, which models this steep
// amplify.
constexpr float kToleranceF32 = 3e-5f;
constexpr float kToleranceF16 = 6e-3f;

class Fidelity : public ::testing::TestWithParam<std::string> {};

TEST_P(Fidelity, LogitsEqualTransformers) {
  const Fixture fixture = load_fixture(GetParam());
  const LoadedModel loaded = load(convert(fixture));
  const auto n_ids = uint32_t(fixture.ids.size());
  const float scale = largest(fixture.logits);
  for (const auto& [kv_type, tolerance] :
       {std::pair(KvType::f32, kToleranceF32), std::pair(KvType::f16, kToleranceF16)}) {
    std::vector<float> first;
    for (const CpuTier tier : tiers()) {
      const RunnerOptions options{.tier = tier, .kv_type = kv_type};
      const std::vector<float> logits =
          Runner(loaded.model->plan(), options).feed(fixture.ids, n_ids);
      const float error = largest_difference(logits, fixture.logits) / scale;
      EXPECT_LE(error, tolerance) << tier_name(tier) << (kv_type == KvType::f32 ? " f32" : " f16");
      EXPECT_TRUE(same_bits(logits, Runner(loaded.model->plan(), options).feed(fixture.ids, 1)));
      if (first.empty()) first = logits;
      EXPECT_TRUE(same_bits(logits, first)) << "tiers differ";
    }
  }
}

TEST_P(Fidelity, RowsDoNotDependOnChunksOrThreads) {
  const Fixture fixture = load_fixture(GetParam());
  const LoadedModel loaded = load(convert(fixture));
  const std::vector<int32_t> ids(fixture.ids.begin(), fixture.ids.begin() + 72);
  const std::vector<float> expected =
      Runner(loaded.model->plan(), {.kv_type = KvType::f16}).feed(ids, 72);
  for (const CpuTier tier : tiers()) {
    for (const auto& [n_threads, chunk] :
         {std::pair(1, 7), {1, 33}, {2, 1}, {2, 72}, {3, 7}, {8, 33}}) {
      Runner runner(loaded.model->plan(),
                    {.tier = tier, .n_threads = uint32_t(n_threads), .kv_type = KvType::f16});
      EXPECT_TRUE(same_bits(runner.feed(ids, uint32_t(chunk)), expected))
          << tier_name(tier) << ", " << n_threads << " threads, steps of " << chunk;
    }
  }
}

/// Two sequences around the one that is looked at, each at its own place and pace.
TEST_P(Fidelity, RowsDoNotDependOnNeighbours) {
  const Fixture fixture = load_fixture(GetParam());
  const LoadedModel loaded = load(convert(fixture));
  const std::vector<int32_t> ids(fixture.ids.begin(), fixture.ids.begin() + 48);
  for (const CpuTier tier : tiers()) {
    const RunnerOptions options{
        .tier = tier, .kv_type = KvType::f16, .n_slots = 3, .max_cells = 128};
    const std::vector<float> expected = Runner(loaded.model->plan(), options).feed(ids, 48);
    Runner runner(loaded.model->plan(), options);
    std::vector<float> seen;
    uint32_t neighbour_cell = 0;
    for (uint32_t cell = 0; cell < 48; cell += 6) {
      std::vector<int32_t> left(3), right(cell % 5 + 1);
      for (int32_t& id : left) id = int32_t(random_word(1, cell) % fixture.n_vocab);
      for (int32_t& id : right) id = int32_t(random_word(2, cell) % fixture.n_vocab);
      const std::vector<float> logits =
          runner.step({{2, neighbour_cell, left},
                       {0, cell, {ids.begin() + cell, ids.begin() + cell + 6}},
                       {1, neighbour_cell, right}});
      const auto begin = logits.begin() + 3 * fixture.n_vocab;
      seen.insert(seen.end(), begin, begin + 6 * fixture.n_vocab);
      neighbour_cell += uint32_t(right.size() < 3 ? right.size() : 3);
    }
    EXPECT_TRUE(same_bits(seen, expected)) << tier_name(tier);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Fidelity, ::testing::ValuesIn(fixture_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace cera::tests
