#include "engine/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/bench.h"
#include "models/tiny_model.h"
#include "session/script_model.h"

namespace cera {
namespace {

using text::TokenId;
using Tokens = std::vector<TokenId>;
using Bytes = std::vector<std::byte>;

class PerplexityTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "cera_perplexity_test_" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
    write("script.gguf", tests::script_model());
    engine = Engine::open({.model_path = path("script.gguf"),
                           .context_size = 64,
                           .max_outputs = kPerplexityOutputs})
                 .value();
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string& name) const { return folder + "/" + name; }
  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream out(path(name), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  }
  Bytes read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    Bytes bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  }

  /// n tokens of the digits that follow each other, but for those at the places given.
  static Tokens digits(size_t n, const std::vector<size_t>& broken = {}) {
    Tokens tokens(n);
    for (size_t i = 0; i < n; ++i) tokens[i] = TokenId('0' + i % 10);
    for (const size_t i : broken) tokens[i] = 'x';
    return tokens;
  }

  /// -log p of the token that follows, and of any other: one logit stands out, the rest are 0.
  double nll_next() const { return std::log1p((tests::kScriptVocab - 1) * std::exp(-logit())); }
  double nll_other() const { return nll_next() + logit(); }
  /// Of the script's head: a unit vector after RMS norm over 288 elements.
  static double logit() { return 1 / std::sqrt(1.0 / 288 + 1e-5); }

  std::string folder;
  std::shared_ptr<Engine> engine;
};

TEST_F(PerplexityTest, ScoresTheSecondHalfOfEachChunk) {
  // Chunks of 16: positions 8 .. 14 predict tokens 9 .. 15. What stands before does not count, nor
  // does the incomplete last chunk. The first token is replaced by BOS, whatever it was.
  const Tokens tokens = digits(50, {0, 3, 8, 20, 49});
  const PerplexityResult result = measure_perplexity(*engine, tokens, 16).value();
  EXPECT_EQ(result.positions, 21u);
  EXPECT_EQ(result.n_chunks, 3u);
  // Token 8 is broken, so that 9 does not follow it; 32 starts a chunk.
  const double expected = std::exp((20 * nll_next() + nll_other()) / 21);
  EXPECT_NEAR(result.perplexity / expected, 1, 1e-5);
}

TEST_F(PerplexityTest, ManyOutputsInOneChunk) {
  // 31 scored positions are one step; with a larger context there are several.
  const auto wide = Engine::open({.model_path = path("script.gguf"),
                                  .context_size = 400,
                                  .max_outputs = kPerplexityOutputs})
                        .value();
  const PerplexityResult result = measure_perplexity(*wide, digits(400, {300}), 400).value();
  EXPECT_EQ(result.positions, 199u);
  EXPECT_NEAR(result.perplexity / std::exp((197 * nll_next() + 2 * nll_other()) / 199), 1, 1e-5);
}

TEST_F(PerplexityTest, EncodesAsContentWithBos) {
  const Prompt prompt = encode_for_perplexity(*engine, "<|bos|>a").value();
  EXPECT_EQ(prompt.ids.size(), 9u);
  EXPECT_EQ(prompt.ids.front(), tests::kScriptBos);
  EXPECT_EQ(prompt.ids[1], '<');
}

TEST_F(PerplexityTest, RefusesWhatCannotBeMeasured) {
  EXPECT_EQ(measure_perplexity(*engine, digits(15), 16).error().code, ErrorCode::invalid_argument);
  Tokens tokens = digits(16);
  tokens[5] = tests::kScriptVocab;
  EXPECT_EQ(measure_perplexity(*engine, tokens, 16).error().code, ErrorCode::invalid_argument);
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(measure_perplexity(*engine, digits(16), 16, {.cancel = &cancel}).error().code,
            ErrorCode::cancelled);
}

TEST_F(PerplexityTest, AgainstItselfThereIsNoDifference) {
  const Tokens tokens = digits(64, {3, 37});  // none of those scored: the file would clip them
  const double plain =
      measure_perplexity(*engine, tokens, 32, {.save_path = path("self.bin")})->perplexity;
  const LogitsFile file = LogitsFile::open(path("self.bin")).value();
  EXPECT_EQ(file.n_ctx(), 32u);
  EXPECT_EQ(file.n_chunks(), 2u);
  EXPECT_EQ(file.tokens(), tokens);
  const PerplexityResult result =
      measure_perplexity(*engine, tokens, 32, {.reference = &file}).value();
  EXPECT_EQ(result.perplexity, plain);
  const ReferenceComparison& c = *result.reference;
  EXPECT_NEAR(c.perplexity / plain, 1, 1e-4);
  EXPECT_NEAR(c.mean_kl, 0, 1e-5);
  EXPECT_EQ(c.same_top1, 1);
  EXPECT_EQ(c.same_top1_clear, 1);
  EXPECT_EQ(c.clear_positions, 30u);
  // The logits of all others lie 16.9 below the largest: clipped, all of them.
  EXPECT_EQ(c.clipped_entries, 30u * (tests::kScriptVocab - 1));
}

/// A reference in which token 1 has probability p, token 2 the rest, and all others are clipped.
Bytes two_token_reference(float p, uint32_t n_ctx, const Tokens& tokens, uint32_t n_vocab,
                          size_t favourite, size_t second) {
  Bytes bytes;
  const auto add = [&](const auto& value) {
    const auto* data = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), data, data + sizeof value);
  };
  for (const char c : std::string("_logits_")) add(c);
  add(int32_t(n_ctx));
  add(int32_t(n_vocab));
  add(int32_t(tokens.size() / n_ctx));
  for (const TokenId t : tokens) add(t);
  const float top = std::log(p), lowest = top - 16.0f, scale = 16.0f / 65535;
  for (size_t row = 0; row < tokens.size() / n_ctx * scored_positions(n_ctx); ++row) {
    add(scale);
    add(lowest);
    for (size_t i = 0; i < n_vocab + n_vocab % 2; ++i) {
      uint16_t code = 0;
      if (i == favourite) code = 65535;
      if (i == second) code = uint16_t(std::lround((std::log(1 - p) - lowest) / scale));
      add(code);
    }
  }
  return bytes;
}

TEST_F(PerplexityTest, KlDivergenceByHand) {
  const Tokens tokens(32, 'a');  // our model says b after every a
  for (const float p : {0.9f, 0.55f, 0.51f}) {
    write("two.bin", two_token_reference(p, 32, tokens, tests::kScriptVocab, 'b', 'c'));
    const LogitsFile file = LogitsFile::open(path("two.bin")).value();
    const auto result = measure_perplexity(*engine, tokens, 32, {.reference = &file}).value();
    const double kl = p * (std::log(p) + nll_next()) + (1 - p) * (std::log(1 - p) + nll_other());
    EXPECT_NEAR(result.reference->mean_kl / kl, 1, 1e-3) << p;
    EXPECT_NEAR(result.reference->max_kl / kl, 1, 1e-3) << p;
    EXPECT_EQ(result.reference->same_top1, 1);
    EXPECT_EQ(result.reference->clear_positions, std::log(p / (1 - p)) > kClearGap ? 15u : 0u) << p;
    EXPECT_EQ(result.reference->clipped_entries, 15u * (tests::kScriptVocab - 2));
  }
  write("other.bin", two_token_reference(0.9f, 32, tokens, tests::kScriptVocab, 'c', 'b'));
  const LogitsFile other = LogitsFile::open(path("other.bin")).value();
  const auto result = measure_perplexity(*engine, tokens, 32, {.reference = &other}).value();
  EXPECT_EQ(result.reference->same_top1, 0);
  EXPECT_EQ(result.reference->same_top1_clear, 0);
}

TEST_F(PerplexityTest, ReferenceOfAnotherModelIsRefused) {
  const Tokens tokens = digits(32);
  write("other.bin", two_token_reference(0.9f, 32, tokens, 261, 1, 2));
  const LogitsFile file = LogitsFile::open(path("other.bin")).value();
  EXPECT_EQ(measure_perplexity(*engine, tokens, 32, {.reference = &file}).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(PerplexityTest, DamagedReferencesAreErrors) {
  const Bytes good = two_token_reference(0.9f, 8, digits(16), 5, 1, 2);
  write("good.bin", good);
  ASSERT_TRUE(LogitsFile::open(path("good.bin")).has_value());
  for (size_t n = 0; n < good.size(); ++n) {
    write("cut.bin", Bytes(good.begin(), good.begin() + ptrdiff_t(n)));
    EXPECT_FALSE(LogitsFile::open(path("cut.bin")).has_value()) << n;
  }
  for (const size_t field : {8u, 12u, 16u}) {
    for (const int32_t value : {INT32_MIN, -1, 0, 1 << 30, INT32_MAX}) {
      Bytes bad = good;
      std::memcpy(bad.data() + field, &value, sizeof value);
      write("bad.bin", bad);
      EXPECT_FALSE(LogitsFile::open(path("bad.bin")).has_value()) << field << " " << value;
    }
  }
  Bytes magic = good;
  magic[0] = std::byte('x');
  write("magic.bin", magic);
  EXPECT_EQ(LogitsFile::open(path("magic.bin")).error().code, ErrorCode::malformed);
}

TEST(Bench, Percentiles) {
  const Percentiles p = percentiles({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(p.p10, 1.4);
  EXPECT_DOUBLE_EQ(p.p50, 3);
  EXPECT_DOUBLE_EQ(p.p90, 4.6);
  EXPECT_DOUBLE_EQ(percentiles({7}).p90, 7);
  EXPECT_DOUBLE_EQ(percentiles({}).p50, 0);
}

TEST(Bench, TokenCostCountsTheWeightsOfEachLayer) {
  const tests::LoadedModel loaded = tests::load(tests::convert(tests::load_fixture("qwen2")));
  uint64_t elements = 0;  // of all matrices; the embedding is read by row only
  for (const gguf::TensorInfo& t : loaded.model->file().tensors())
    if (t.dimensions.size() == 2 && t.name != "token_embd.weight") elements += t.elements();
  const TokenCost cost = token_cost(loaded.model->plan());
  EXPECT_EQ(cost.weight_bytes, elements * 4);
  EXPECT_EQ(cost.ops, elements * 2);
}

TEST_F(PerplexityTest, BenchMeasures) {
  const auto small =
      Engine::open({.model_path = path("script.gguf"), .n_sequences = kBenchSequences}).value();
  const BenchOptions options = {
      .prompt_tokens = 20, .max_tokens = 4, .depth = 70, .runs = 3, .warmup = 1};
  const BenchResult result = run_bench(*small, options).value();
  for (const Percentiles& p : {result.prefill_tok_s, result.decode_tok_s, result.ttft_ms}) {
    EXPECT_GT(p.p10, 0);
    EXPECT_LE(p.p10, p.p50);
    EXPECT_LE(p.p50, p.p90);
  }
  const BenchProfile profile = profile_ops(*small, options).value();
  ASSERT_FALSE(profile.prefill.empty());
  for (const OpTime& op : profile.decode) {
    if (op.name.starts_with("embed")) {
      EXPECT_EQ(op.calls, 4u);
    }
    EXPECT_EQ(op.name.find("blk."), std::string::npos) << op.name;
  }
}

}  // namespace
}  // namespace cera
