// A row's logits are the same bits whatever the chunking, the neighbours in the step, the pages,
// the number of threads and the tier.

#include <gtest/gtest.h>

#include <limits>

#include "backends/cpu_tiers.h"
#include "backends/tiny_plan.h"

namespace cera::tests {
namespace {

constexpr TensorType kMixed[] = {TensorType::q4_k, TensorType::q6_k, TensorType::q5_0,
                                 TensorType::f16,  TensorType::q8_0, TensorType::q4_1};

struct Run {
  CpuTier tier = CpuTier::scalar;
  uint32_t n_threads = 1;
  uint32_t page_seed = 1;
};

Outputs run(const TinyPlan& tiny, const std::vector<TestSequence>& sequences,
            const Schedule& schedule, const Run& how) {
  const auto backend = make_cpu_backend({how.tier, how.n_threads});
  Harness harness(*backend, tiny.plan, KvType::f16, sequences, most_rows(schedule), how.page_seed);
  harness.run(schedule);
  return harness.outputs(0);
}

/// Sequence 0 in chunks of the given size, beside random pieces of the others.
Schedule with_neighbours(uint32_t n_cells, uint32_t chunk, std::vector<uint32_t> left,
                         std::minstd_rand& random) {
  Schedule schedule = chunked(n_cells, chunk);
  for (auto& pieces : schedule) {
    for (uint32_t s = 1; s <= left.size(); ++s) {
      const uint32_t n = std::min(left[s - 1], uint32_t(random() % 9));
      if (n > 0) pieces.push_back({s, n});
      left[s - 1] -= n;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
  }
  return schedule;
}

class OfType : public ::testing::TestWithParam<TensorType> {};

TEST_P(OfType, ChunksThreadsAndTiersDoNotMatter) {
  constexpr uint32_t n = 70;
  TinyPlan tiny = make_tiny_plan({GetParam()});
  const std::vector<TestSequence> one = {{tiny.random->tokens(n, TinyPlan::kVocab), 0, {}, {}}};
  const CpuTier best = available_tiers().back();
  const Outputs expected = run(tiny, one, chunked(n, n), {best, 1});
  ASSERT_NE(expected.at(0), expected.at(n - 1));
  struct {
    uint32_t chunk, n_threads;
  } const ways[] = {{1, 2}, {7, 3}, {33, 8}, {7, 1}};
  for (const auto [chunk, n_threads] : ways) {
    expect_outputs(run(tiny, one, chunked(n, chunk), {best, n_threads}), expected, 0,
                   fmt::format("chunks of {}, {} threads", chunk, n_threads));
  }
  for (CpuTier tier : available_tiers()) {
    expect_outputs(run(tiny, one, chunked(n, 33), {tier, 2}), expected, 0,
                   std::string(tier_name(tier)));
  }
}

std::vector<TensorType> every_type() {
  std::vector<TensorType> types;
  for (const TypeInfo& type : all_types()) types.push_back(type.type);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, OfType, ::testing::ValuesIn(every_type()), [](const auto& entry) {
  return std::string(type_info(entry.param).name);
});

TEST(Invariants, EqualTheDefinitions) {
  TinyPlan tiny = make_tiny_plan({std::begin(kMixed), std::end(kMixed)});
  const TestSequence sequence = {tiny.random->tokens(12, TinyPlan::kVocab), 0, {}, {}};
  const Outputs expected = Reference(tiny.plan, KvType::f16, sequence).run();
  for (CpuTier tier : available_tiers()) {
    expect_outputs(run(tiny, {sequence}, chunked(12, 5), {tier, 2}), expected, 0,
                   std::string(tier_name(tier)));
  }
}

TEST(Invariants, NeighboursDoNotMatter) {
  constexpr uint32_t n = 300;
  TinyPlan tiny = make_tiny_plan({std::begin(kMixed), std::end(kMixed)});
  std::vector<TestSequence> sequences = {{tiny.random->tokens(n, TinyPlan::kVocab), 0, {}, {}}};
  const CpuTier best = available_tiers().back();
  const Outputs expected = run(tiny, sequences, chunked(n, n), {best, 1});
  for (uint32_t n_cells : {90, 500, 17}) {
    sequences.push_back({tiny.random->tokens(n_cells, TinyPlan::kVocab), 5, {}, {}});
  }
  std::minstd_rand random(3);
  struct {
    uint32_t chunk, n_threads;
  } const ways[] = {{1, 2}, {7, 1}, {7, 3}, {33, 2}, {300, 8}};
  for (const auto [chunk, n_threads] : ways) {
    const Schedule schedule = with_neighbours(n, chunk, {90, 500, 17}, random);
    expect_outputs(run(tiny, sequences, schedule, {best, n_threads, chunk + n_threads}), expected,
                   0, fmt::format("chunks of {}, {} threads", chunk, n_threads));
  }
}

/// A table whose row of token 0 is NaN.
TinyPlan plan_with_poison(std::vector<float>& table) {
  TinyPlan tiny = make_tiny_plan({TensorType::f32});
  EmbedOp& embed = std::get<EmbedOp>(tiny.plan.ops.front());
  const auto* values = reinterpret_cast<const float*>(embed.table.data);
  table.assign(values, values + size_t(TinyPlan::kVocab) * TinyPlan::kWidth);
  std::fill_n(table.begin(), TinyPlan::kWidth, std::numeric_limits<float>::quiet_NaN());
  embed.table.data = reinterpret_cast<const std::byte*>(table.data());
  return tiny;
}

TEST(Invariants, NaNStaysInItsSequence) {
  std::vector<float> table;
  const TinyPlan tiny = plan_with_poison(table);
  std::vector<TestSequence> sequences;
  for (uint32_t s = 0; s < 3; ++s) {
    sequences.push_back({tiny.random->tokens(80, TinyPlan::kVocab - 1), 0, {}, {}});
    for (int32_t& token : sequences[s].tokens) ++token;
  }
  std::vector<TestSequence> poisoned = sequences;
  poisoned[1].tokens[20] = 0;
  const Schedule schedule = {
      {{1, 40}, {0, 70}, {2, 3}}, {{2, 30}, {1, 5}, {0, 1}}, {{0, 9}, {1, 1}, {2, 1}}};
  for (CpuTier tier : available_tiers()) {
    const auto backend = make_cpu_backend({tier, 2});
    Harness clean(*backend, tiny.plan, KvType::f16, sequences, 200);
    Harness dirty(*backend, tiny.plan, KvType::f16, poisoned, 200);
    clean.run(schedule);
    dirty.run(schedule);
    for (uint32_t s : {0, 2}) {
      expect_outputs(dirty.outputs(s), clean.outputs(s), 0, fmt::format("sequence {}", s));
    }
    // In its own sequence the earlier cells do not see it, the later ones do not lose it.
    for (const auto& [cell, row] : dirty.outputs(1)) {
      const bool finite = std::all_of(row.begin(), row.end(), [](float x) { return x == x; });
      EXPECT_EQ(finite, cell < 20) << "cell " << cell;
      if (cell < 20) {
        EXPECT_EQ(row, clean.outputs(1).at(cell));
      }
    }
  }
}

}  // namespace
}  // namespace cera::tests
