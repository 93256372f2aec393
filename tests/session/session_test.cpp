// Sessions on the CPU backend: the script model, whose text is known, and tiny random models, whose
// logits must not depend on how they came about.

#include "session/session.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "base/utf8.h"
#include "models/tiny_model.h"
#include "session/script_model.h"

namespace cera {
namespace {

using tests::LoadedModel;
using text::TokenId;
using Tokens = std::vector<TokenId>;

struct World {
  std::shared_ptr<const std::vector<std::byte>> bytes;  // the model's weights point into them
  std::shared_ptr<Runner> runner;
  std::shared_ptr<const text::Tokenizer> tokenizer;

  Session session(const std::atomic<bool>* cancel = nullptr) {
    return Session::make(runner, tokenizer, cancel).value();
  }
};

std::shared_ptr<Runner> make_runner(std::shared_ptr<const Model> model,
                                    const RunnerOptions& options) {
  const std::shared_ptr<Backend> backend =
      make_cpu_backend({.tier = read_cpu_info().best_tier, .n_threads = 2});
  return Runner::make(std::move(model), backend, options).value();
}

World script_world(const RunnerOptions& options = {.context_size = 128}) {
  World world;
  world.bytes = std::make_shared<const std::vector<std::byte>>(tests::script_model());
  const auto file = gguf::File::from_bytes(*world.bytes).value();
  world.tokenizer = text::Tokenizer::from_gguf(*file).value();
  world.runner = make_runner(Model::load(file).value(), options);
  return world;
}

/// The tiny models have no vocabulary: a tokenizer is needed, but not used for text.
World tiny_world(const std::string& name, const RunnerOptions& options) {
  const LoadedModel loaded = tests::load(tests::convert(tests::load_fixture(name)));
  World world = script_world();
  world.bytes = loaded.bytes;
  world.runner = make_runner(loaded.model, options);
  return world;
}

Tokens tokens_of(const World& world, const std::string& text) {
  return world.tokenizer->encode(text::SpanText(text, text::Origin::content)).value().ids;
}

Tokens random_tokens(uint64_t seed, size_t n, uint32_t vocab) {
  Random random(seed);
  Tokens tokens(n);
  for (TokenId& t : tokens) t = TokenId(random.below(vocab));
  return tokens;
}

Sampler greedy() {
  return Sampler::make({.temperature = 0}).value();
}

struct Output {
  std::string text;
  std::vector<std::string> pieces;
  FinishReason reason;
  Tokens tokens;
};

Output generate(Session& session, const GenerateOptions& options, Sampler sampler = greedy()) {
  Output output{};
  auto result = session.generate(sampler, options, [&](std::string_view text, TokenId) {
    output.pieces.emplace_back(text);
    output.text += text;
    return true;
  });
  EXPECT_TRUE(result.has_value()) << result.error().text();
  output.reason = result->reason;
  output.tokens = result->tokens;
  return output;
}

Output complete(World& world, const std::string& prompt, const GenerateOptions& options = {}) {
  Session session = world.session();
  EXPECT_TRUE(session.append(tokens_of(world, prompt)).has_value());
  return generate(session, options);
}

TEST(Session, GeneratesUntilAnEndToken) {
  World world = script_world();
  const Output output = complete(world, "wx");
  EXPECT_EQ(output.text, "yz\u00e9\u4e16!");
  EXPECT_EQ(output.reason, FinishReason::stop_token);
  EXPECT_EQ(output.tokens.size(), 8u);  // bytes; the end token is not part of it
}

TEST(Session, PiecesAreWholeCharacters) {
  World world = script_world();
  const Output output = complete(world, "\n");
  EXPECT_EQ(output.text, tests::kScriptText);
  for (const std::string& piece : output.pieces) EXPECT_TRUE(is_valid_utf8(piece)) << piece;
}

TEST(Session, BrokenCharactersComeOutReplaced) {
  World world = script_world();
  EXPECT_EQ(complete(world, "?").text, "\ufffd~");
  // Cut by max_tokens in the middle of U+4E16.
  const Output cut = complete(world, "z", {.max_tokens = 3});
  EXPECT_EQ(cut.text, "\u00e9\ufffd");
  EXPECT_EQ(cut.reason, FinishReason::max_tokens);
}

TEST(Session, StopStringsEndIt) {
  World world = script_world();
  Output output = complete(world, "a", {.stop = {"fgh", "zzz"}});
  EXPECT_EQ(output.text, "bcde");
  EXPECT_EQ(output.reason, FinishReason::stop_string);
  output = complete(world, "x", {.stop = {"\u4e16"}});
  EXPECT_EQ(output.text, "yz\u00e9");
  // Held back at the end, because it could have been the beginning of one.
  output = complete(world, "x", {.stop = {"!?"}});
  EXPECT_EQ(output.text, "yz\u00e9\u4e16!");
  EXPECT_EQ(output.reason, FinishReason::stop_token);
  output = complete(world, "a", {.max_tokens = 3, .stop = {"cde"}});
  EXPECT_EQ(output.text, "bcd");
  EXPECT_EQ(output.reason, FinishReason::max_tokens);
}

TEST(Session, MaxTokensAndGoingOn) {
  World world = script_world();
  Session session = world.session();
  ASSERT_TRUE(session.append(tokens_of(world, "a")).has_value());
  EXPECT_EQ(generate(session, {.max_tokens = 0}).text, "");
  EXPECT_EQ(generate(session, {.max_tokens = 2}).text, "bc");
  EXPECT_EQ(generate(session, {.max_tokens = 3}).text, "def");
  EXPECT_EQ(session.tokens(), tokens_of(world, "abcdef"));
  ASSERT_TRUE(session.append(tokens_of(world, "5")).has_value());
  EXPECT_EQ(generate(session, {.max_tokens = 3}).text, "678");
}

TEST(Session, FullContextIsReported) {
  World world = script_world({.context_size = 20});
  const Output output = complete(world, "123");
  EXPECT_EQ(output.text, "45678901234567890");
  EXPECT_EQ(output.reason, FinishReason::context_full);
  // A prompt that fits exactly leaves room for nothing; one more token is an error with both
  // numbers.
  EXPECT_EQ(complete(world, std::string(20, '5')).reason, FinishReason::context_full);
  Session session = world.session();
  ASSERT_TRUE(session.append(Tokens(5, '1')).has_value());
  const auto result = session.append(Tokens(16, '1'));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::context_full);
  EXPECT_NE(result.error().message.find("21 tokens"), std::string::npos);
  EXPECT_NE(result.error().message.find("context of 20"), std::string::npos);
  EXPECT_EQ(session.tokens().size(), 5u);
  EXPECT_EQ(generate(session, {.max_tokens = 3}).text, "234");
}

TEST(Session, NothingToContinueIsAnError) {
  World world = script_world();
  Session session = world.session();
  Sampler sampler = greedy();
  EXPECT_EQ(session.generate(sampler, {}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(session.logits().error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(session.append({}).has_value());
}

TEST(Session, UnknownTokensAreAnError) {
  World world = script_world();
  Session session = world.session();
  for (const TokenId bad : {-1, tests::kScriptVocab}) {
    const auto result = session.append(Tokens{'a', bad});
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(session.tokens().empty());
  }
  ASSERT_TRUE(session.append(Tokens{'a'}).has_value());
  EXPECT_EQ(generate(session, {.max_tokens = 2}).text, "bc");
}

TEST(Session, CancelInPrefillKeepsWhatHasRun) {
  World world = script_world({.context_size = 128, .max_rows = 16});
  std::atomic<bool> cancel = false;
  Session session = world.session(&cancel);
  const auto result = session.append(Tokens(100, '4'), [&](size_t done, size_t all) {
    EXPECT_EQ(all, 100u);
    if (done >= 32) cancel = true;
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::cancelled);
  EXPECT_EQ(session.tokens().size(), 32u);
  EXPECT_EQ(generate(session, {}).reason, FinishReason::cancelled);
  cancel = false;
  EXPECT_EQ(generate(session, {.max_tokens = 3}).text, "567");
}

TEST(Session, CancelWhileGenerating) {
  World world = script_world();
  std::atomic<bool> cancel = false;
  Session session = world.session(&cancel);
  ASSERT_TRUE(session.append(Tokens{'0'}).has_value());
  Sampler sampler = greedy();
  std::string text;
  auto result = session.generate(sampler, {}, [&](std::string_view piece, TokenId id) {
    text += piece;
    if (id == '4') cancel = true;
    return true;
  });
  EXPECT_EQ(result->reason, FinishReason::cancelled);
  EXPECT_EQ(text, "1234");
  cancel = false;
  result = session.generate(sampler, {}, [&](std::string_view, TokenId id) { return id != '7'; });
  EXPECT_EQ(result->reason, FinishReason::cancelled);
  EXPECT_EQ(session.tokens().back(), '7');
}

TEST(Session, StatisticsCountTokens) {
  World world = script_world();
  Session session = world.session();
  ASSERT_TRUE(session.append(Tokens(10, '1')).has_value());
  generate(session, {.max_tokens = 5});
  EXPECT_EQ(session.stats().prompt_tokens, 10u);
  EXPECT_EQ(session.stats().decode_tokens, 4u);  // the fifth has not been run
  EXPECT_GT(session.stats().prompt_s, 0);
  EXPECT_GT(session.stats().decode_s, 0);
}

TEST(Session, NonFiniteLogitsAreAnError) {
  tests::TinyFile file = tests::convert(tests::load_fixture("llama"));
  file.tensors.at("output_norm.weight").values[3] = std::numeric_limits<float>::quiet_NaN();
  const LoadedModel loaded = tests::load(file);
  World world = script_world();
  world.runner = make_runner(loaded.model, {.context_size = 64});
  Session session = world.session();
  ASSERT_TRUE(session.append(Tokens{1, 2, 3}).has_value());
  Sampler sampler = greedy();
  EXPECT_EQ(session.generate(sampler, {}).error().code, ErrorCode::numeric);
}

/// The same properties for an attention model and a hybrid one.
class TinySession : public testing::TestWithParam<std::string> {
 protected:
  World open(const RunnerOptions& options) { return tiny_world(GetParam(), options); }

  static std::vector<float> logits_after(Session& session) {
    const auto logits = session.logits();
    EXPECT_TRUE(logits.has_value()) << logits.error().text();
    return {logits->begin(), logits->end()};
  }
  static std::vector<float> fresh_logits(World& world, std::span<const TokenId> tokens) {
    Session session = world.session();
    EXPECT_TRUE(session.append(tokens).has_value());
    return logits_after(session);
  }
};

TEST_P(TinySession, ChunksDoNotMatter) {
  const Tokens tokens = random_tokens(1, 150, 96);
  World reference = open({.context_size = 256});
  const std::vector<float> expected = fresh_logits(reference, tokens);
  for (const uint32_t max_rows : {1u, 7u, 64u}) {
    World world = open({.context_size = 256, .max_rows = max_rows});
    EXPECT_EQ(fresh_logits(world, tokens), expected) << max_rows;
  }
}

TEST_P(TinySession, NeighboursDoNotMatter) {  // P7
  World world = open({.context_size = 128, .n_sequences = 8});
  Runner& runner = *world.runner;
  const Tokens tokens = random_tokens(2, 100, 96);
  std::vector<std::vector<float>> alone;
  {
    Sequence sequence = runner.new_sequence().value();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const RunInput input{&sequence, std::span(tokens).subspan(i, 1), 1};
      ASSERT_TRUE(runner.run({&input, 1}).has_value());
      alone.emplace_back(runner.logits(0).begin(), runner.logits(0).end());
    }
  }
  // Seven others join and leave, with prefills and single tokens, in random order within the step.
  Random random(3);
  const Tokens noise = random_tokens(4, 128, 96);
  std::vector<Sequence> others;
  Sequence sequence = runner.new_sequence().value();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (others.size() < 7 && random.below(3) == 0) others.push_back(runner.new_sequence().value());
    if (!others.empty() && random.below(5) == 0) others.pop_back();
    std::vector<RunInput> inputs;
    for (Sequence& other : others) {
      const uint64_t n = std::min<uint64_t>(1 + random.below(9), 128 - other.length());
      if (n > 0)
        inputs.push_back(
            {&other, std::span(noise).subspan(other.length(), n), uint32_t(random.below(2))});
    }
    const size_t at = random.below(inputs.size() + 1);
    uint32_t output = 0;
    for (size_t j = 0; j < at; ++j) output += inputs[j].n_outputs;
    inputs.insert(inputs.begin() + ptrdiff_t(at), {&sequence, std::span(tokens).subspan(i, 1), 1});
    ASSERT_TRUE(runner.run(inputs).has_value());
    const std::span<const float> logits = runner.logits(output);
    ASSERT_TRUE(std::equal(logits.begin(), logits.end(), alone[i].begin(), alone[i].end()))
        << "token " << i;
  }
}

TEST_P(TinySession, TruncateIsAsIfNeverThere) {
  World world = open({.context_size = 256, .n_sequences = 2});
  const Tokens tokens = random_tokens(5, 230, 96), other = random_tokens(6, 40, 96);
  for (const size_t keep : {229u, 200u, 170u, 128u, 100u, 64u, 30u, 1u, 0u}) {
    Session session = world.session();
    ASSERT_TRUE(session.append(std::span(tokens).first(130)).has_value());
    ASSERT_TRUE(session.append(std::span(tokens).subspan(130)).has_value());
    session.truncate(keep);
    ASSERT_EQ(session.tokens().size(), keep);
    if (keep > 0) {
      EXPECT_EQ(logits_after(session), fresh_logits(world, std::span(tokens).first(keep))) << keep;
    }
    session.truncate(keep);
    const size_t n = std::min<size_t>(other.size(), 256 - keep);
    ASSERT_TRUE(session.append(std::span(other).first(n)).has_value());
    Tokens expected(tokens.begin(), tokens.begin() + ptrdiff_t(keep));
    expected.insert(expected.end(), other.begin(), other.begin() + ptrdiff_t(n));
    EXPECT_EQ(logits_after(session), fresh_logits(world, expected)) << keep;
  }
}

TEST_P(TinySession, ForksGoTheirOwnWays) {
  World world = open({.context_size = 200, .n_sequences = 4});
  const Tokens start = random_tokens(7, 100, 96), left = random_tokens(8, 50, 96),
               right = random_tokens(9, 50, 96);
  Session a = world.session();
  ASSERT_TRUE(a.append(start).has_value());
  Session b = a.fork().value();
  EXPECT_EQ(logits_after(a), logits_after(b));
  for (size_t i = 0; i < left.size();
       i += 5) {  // in turns, so that each writes while the other lives
    ASSERT_TRUE(a.append(std::span(left).subspan(i, 5)).has_value());
    ASSERT_TRUE(b.append(std::span(right).subspan(i, 5)).has_value());
  }
  const auto joined = [&](const Tokens& rest) {
    Tokens all = start;
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  EXPECT_EQ(logits_after(a), fresh_logits(world, joined(left)));
  EXPECT_EQ(logits_after(b), fresh_logits(world, joined(right)));
}

TEST_P(TinySession, ReusedSlotsAndPagesAreClean) {
  World world = open({.context_size = 128, .n_sequences = 1});
  const Tokens tokens = random_tokens(10, 90, 96);
  const std::vector<float> expected = fresh_logits(world, tokens);
  for (const uint64_t seed : {11u, 12u, 13u}) {
    fresh_logits(world, random_tokens(seed, 128, 96));
    EXPECT_EQ(fresh_logits(world, tokens), expected);
  }
  const Session taken = world.session();
  EXPECT_EQ(Session::make(world.runner, world.tokenizer).error().code, ErrorCode::context_full);
}

TEST_P(TinySession, SeedsReproduceAndStopsDoNotMatter) {  // P8
  World world = open({.context_size = 256});
  const Tokens prompt = random_tokens(14, 20, 96);
  const auto tokens_for = [&](uint64_t seed, std::vector<uint32_t> parts) {
    Session session = world.session();
    EXPECT_TRUE(session.append(prompt).has_value());
    Sampler sampler = Sampler::make({.temperature = 1.5f, .seed = seed}).value();
    for (const uint32_t n : parts)
      EXPECT_TRUE(session.generate(sampler, {.max_tokens = n, .ignore_end = true}).has_value());
    return session.tokens();
  };
  const Tokens once = tokens_for(7, {60});
  EXPECT_EQ(once.size(), prompt.size() + 60);
  EXPECT_EQ(tokens_for(7, {60}), once);
  EXPECT_EQ(tokens_for(7, {1, 29, 30}), once);
  EXPECT_NE(tokens_for(8, {60}), once);
}

INSTANTIATE_TEST_SUITE_P(Models, TinySession, testing::Values("llama", "lfm2"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace cera
