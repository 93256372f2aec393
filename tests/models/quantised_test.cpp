// A small model in every tensor type: close to the same model in float, by what that type can hold,
// and with the same bits whatever the chunking, the neighbours, the threads and the tier.

#include <gtest/gtest.h>

#include <cmath>

#include "models/runner.h"
#include "models/tiny_model.h"

namespace cera::tests {
namespace {

constexpr uint32_t kVocab = 256;

/// Wide enough for blocks of 256; every matrix, the embedding and the head are of `type`.
TinyFile wide_llama(TensorType type) {
  return random_model({.type = type, .vocab = kVocab});
}

std::vector<int32_t> some_tokens(size_t n) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = int32_t(random_word(11, i) % kVocab);
  return ids;
}

class Quantised : public ::testing::TestWithParam<TensorType> {};

/// Root mean square of the logits' error over that of the logits.
float relative_error(const std::vector<float>& logits, const std::vector<float>& expected) {
  double error = 0, power = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    error += std::pow(double(logits[i]) - expected[i], 2);
    power += std::pow(double(expected[i]), 2);
  }
  return float(std::sqrt(error / power));
}

/// Each bit less doubles the error: measured 0.017 with 8 bits (half of it from the rounded
/// activations), 0.046 with 6, 0.09 with 5 and 0.18 with 4; 5e-4 and 4e-3 with the 11 and 8 bits of
/// F16 and BF16.
float allowed_error(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return 0;
    case TensorType::f16:
      return 8e-4f;
    case TensorType::bf16:
      return 6e-3f;
    case TensorType::q8_0:
      return 0.025f;
    case TensorType::q6_k:
      return 0.065f;
    case TensorType::q5_0:
    case TensorType::q5_1:
    case TensorType::q5_k:
      return 0.13f;
    case TensorType::q4_0:
    case TensorType::q4_1:
    case TensorType::q4_k:
      return 0.26f;
  }
  return 0;
}

TEST_P(Quantised, LogitsStayNearThoseOfFloats) {
  const auto ids = some_tokens(64);
  const LoadedModel plain = load(wide_llama(TensorType::f32)),
                    packed = load(wide_llama(GetParam()));
  const RunnerOptions options{.tier = tiers().back()};
  const std::vector<float> expected = Runner(plain.model->plan(), options).feed(ids, 64);
  const std::vector<float> logits = Runner(packed.model->plan(), options).feed(ids, 64);
  const float error = relative_error(logits, expected);
  EXPECT_LE(error, allowed_error(GetParam()));
  EXPECT_GE(error, allowed_error(GetParam()) / 2) << "the limit says nothing";
}

TEST_P(Quantised, RowsAreTheSameBitsHoweverComputed) {
  const auto ids = some_tokens(70);
  const LoadedModel loaded = load(wide_llama(GetParam()));
  const Plan& plan = loaded.model->plan();
  const std::vector<float> expected = Runner(plan, {.kv_type = KvType::f16}).feed(ids, 70);
  for (const CpuTier tier : tiers()) {
    for (const auto& [n_threads, chunk] :
         {std::pair(1, 70), {1, 1}, {2, 7}, {3, 33}, {8, 70}, {3, 1}, {8, 7}}) {
      if (tier == CpuTier::scalar && n_threads != 2)
        continue;  // slow, and threads share nothing by tier
      Runner runner(plan, {.tier = tier, .n_threads = uint32_t(n_threads), .kv_type = KvType::f16});
      EXPECT_TRUE(same_bits(runner.feed(ids, uint32_t(chunk)), expected))
          << tier_name(tier) << ", " << n_threads << " threads, steps of " << chunk;
    }
  }
}

TEST_P(Quantised, RowsDoNotDependOnNeighbours) {
  const auto ids = some_tokens(24), others = some_tokens(60);
  const LoadedModel loaded = load(wide_llama(GetParam()));
  const RunnerOptions options{.tier = tiers().back(),
                              .n_threads = 2,
                              .kv_type = KvType::f16,
                              .n_slots = 3,
                              .max_cells = 64};
  const std::vector<float> expected = Runner(loaded.model->plan(), options).feed(ids, 24);
  Runner runner(loaded.model->plan(), options);
  std::vector<float> seen;
  for (uint32_t cell = 0; cell < 24; cell += 3) {
    const std::vector<int32_t> left(others.begin(), others.begin() + cell % 5 + 1);
    const std::vector<int32_t> right(others.begin() + 20, others.begin() + 27 + cell % 4);
    const std::vector<float> logits = runner.step(
        {{2, 0, left}, {0, cell, {ids.begin() + cell, ids.begin() + cell + 3}}, {1, 0, right}});
    const auto begin = logits.begin() + ptrdiff_t(left.size() * kVocab);
    seen.insert(seen.end(), begin, begin + 3 * kVocab);
  }
  EXPECT_TRUE(same_bits(seen, expected));
}

/// One odd tensor among others: the mixtures of published files.
TEST(Mixture, OfTypesIsTheSameBitsHoweverComputed) {
  TinyFile file = wide_llama(TensorType::q4_k);
  size_t next = 0;
  for (auto& [name, tensor] : file.tensors)
    if (tensor.dimensions.size() == 2) tensor.type = all_types()[next++ % all_types().size()].type;
  const LoadedModel loaded = load(file);
  const auto ids = some_tokens(40);
  const std::vector<float> expected = Runner(loaded.model->plan(), {}).feed(ids, 40);
  for (const uint32_t chunk : {1, 7, 40}) {
    Runner runner(loaded.model->plan(), {.tier = tiers().back(), .n_threads = 3});
    EXPECT_TRUE(same_bits(runner.feed(ids, chunk), expected)) << chunk;
  }
}

std::vector<TensorType> all_tensor_types() {
  std::vector<TensorType> types;
  for (const TypeInfo& info : all_types()) types.push_back(info.type);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, Quantised, ::testing::ValuesIn(all_tensor_types()),
                         [](const auto& test) { return std::string(type_info(test.param).name); });

}  // namespace
}  // namespace cera::tests
