// Files that break the rules of their architecture: each is an error that names the culprit.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <mutex>

#include "base/log.h"
#include "models/tiny_model.h"

namespace cera::tests {
namespace {

struct Malformed {
  std::string what;
  std::string fixture;
  std::function<void(TinyFile&)> change;
  ErrorCode code;
  std::vector<std::string> says;  // parts of the message
};

void PrintTo(const Malformed& malformed, std::ostream* out) {
  *out << malformed.what;
}

using Change = std::function<void(TinyFile&)>;

Change set_uint(std::string key, uint64_t value) {
  return [=](TinyFile& file) { file.set_uint(file.key(key), value); };
}
Change set_float(std::string key, double value) {
  return [=](TinyFile& file) { file.set_float(file.key(key), value); };
}
Change set_string(std::string key, std::string value) {
  return [=](TinyFile& file) { file.set_string(file.key(key), value); };
}
Change set_uints(std::string key, std::vector<uint64_t> values) {
  return [=](TinyFile& file) { file.set_uints(file.key(key), values); };
}
Change erase_key(std::string key) {
  return [=](TinyFile& file) { file.keys.erase(file.key(key)); };
}
Change erase_tensor(std::string name) {
  return [=](TinyFile& file) { file.tensors.erase(name); };
}
Change add_vector(std::string name, uint64_t size) {
  return [=](TinyFile& file) { file.tensors[name] = {{size}, std::vector<float>(size, 1)}; };
}
Change reshape(std::string name, std::vector<uint64_t> dimensions) {
  return [=](TinyFile& file) {
    TinyFile::Tensor& tensor = file.tensors.at(name);
    tensor.dimensions = dimensions;
    size_t count = 1;
    for (const uint64_t n : dimensions) count *= n;
    tensor.values.resize(count);
  };
}
Change tokens(size_t n) {
  return [=](TinyFile& file) {
    auto array = std::make_shared<gguf::Array>();
    array->element_type = gguf::ValueType::string;
    array->values = std::vector<std::string>(n, "a");
    file.keys["tokenizer.ggml.tokens"] = {gguf::ValueType::array,
                                          std::shared_ptr<const gguf::Array>(array)};
  };
}

constexpr ErrorCode kMalformed = ErrorCode::malformed, kMissing = ErrorCode::not_found,
                    kUnsupported = ErrorCode::unsupported;

std::vector<Malformed> missing_and_unknown() {
  return {
      {"architecture",
       "llama",
       [](TinyFile& file) { file.set_string("general.architecture", "mamba"); },
       kUnsupported,
       {"general.architecture", "mamba", "lfm2, llama, qwen2, qwen3"}},
      {"no_architecture",
       "llama",
       [](TinyFile& file) { file.keys.erase("general.architecture"); },
       kMissing,
       {"general.architecture"}},
      {"not_a_model",
       "llama",
       [](TinyFile& file) { file.set_string("general.type", "adapter"); },
       kUnsupported,
       {"general.type", "adapter"}},
      {"no_block_count", "llama", erase_key("block_count"), kMissing, {"llama.block_count"}},
      {"no_epsilon",
       "llama",
       erase_key("attention.layer_norm_rms_epsilon"),
       kMissing,
       {"llama.attention.layer_norm_rms_epsilon"}},
      {"no_context", "llama", erase_key("context_length"), kMissing, {"llama.context_length"}},
      {"no_l_cache", "lfm2", erase_key("shortconv.l_cache"), kMissing, {"lfm2.shortconv.l_cache"}},
      {"no_embedding", "llama", erase_tensor("token_embd.weight"), kMissing, {"token_embd.weight"}},
      {"no_final_norm",
       "llama",
       erase_tensor("output_norm.weight"),
       kMissing,
       {"output_norm.weight"}},
      {"no_lfm2_norm",
       "lfm2",
       erase_tensor("token_embd_norm.weight"),
       kMissing,
       {"token_embd_norm.weight"}},
      {"no_matrix",
       "llama",
       erase_tensor("blk.1.ffn_up.weight"),
       kMissing,
       {"blk.1.ffn_up.weight"}},
      {"no_bias", "qwen2", erase_tensor("blk.2.attn_k.bias"), kMissing, {"blk.2.attn_k.bias"}},
      {"no_head_norm",
       "qwen3",
       erase_tensor("blk.0.attn_q_norm.weight"),
       kMissing,
       {"blk.0.attn_q_norm.weight"}},
      {"no_kernel",
       "lfm2",
       erase_tensor("blk.2.shortconv.conv.weight"),
       kMissing,
       {"blk.2.shortconv.conv.weight"}},
      {"no_attention",
       "lfm2",
       set_uint("attention.head_count_kv", 2),
       kMissing,
       {"blk.0.attn_q.weight"}},
      {"fused_qkv",
       "llama",
       [](TinyFile& file) {
         for (const std::string part : {"q", "k", "v"})
           file.tensors.erase("blk.0.attn_" + part + ".weight");
         file.tensors["blk.0.attn_qkv.weight"] = {{64, 128}, std::vector<float>(64 * 128)};
       },
       kUnsupported,
       {"blk.0.attn_qkv.weight"}},
      {"unused_tensor",
       "llama",
       add_vector("blk.1.attn_q_norm.weight", 16),
       kUnsupported,
       {"blk.1.attn_q_norm.weight"}},
      {"dense_2", "lfm2", add_vector("dense_2.weight", 64), kUnsupported, {"dense_2.weight"}},
      {"longrope",
       "llama",
       add_vector("rope_factors_long.weight", 8),
       kUnsupported,
       {"rope_factors_long.weight"}},
      {"two_norms",
       "lfm2",
       add_vector("output_norm.weight", 64),
       kUnsupported,
       {"token_embd_norm.weight"}},
      {"ffn_bias",
       "llama",
       add_vector("blk.0.ffn_down.bias", 64),
       kUnsupported,
       {"blk.0.ffn_down.bias"}},
  };
}

std::vector<Malformed> wrong_numbers() {
  return {
      {"no_blocks", "llama", set_uint("block_count", 0), kMalformed, {"llama.block_count"}},
      {"too_few_blocks",
       "llama",
       set_uint("block_count", 2),
       kUnsupported,
       {"blk.2.", "llama.block_count"}},
      {"too_many_blocks", "llama", set_uint("block_count", 4), kMissing, {"blk.3."}},
      {"absurd_blocks",
       "llama",
       set_uint("block_count", 1u << 31),
       kMalformed,
       {"llama.block_count", "2147483648"}},
      {"no_width",
       "llama",
       set_uint("embedding_length", 0),
       kMalformed,
       {"llama.embedding_length"}},
      {"wrong_width",
       "llama",
       set_uint("embedding_length", 128),
       kMalformed,
       {"token_embd.weight", "[128, 96]"}},
      {"wide",
       "llama",
       set_uint("embedding_length", 1u << 31),
       kMalformed,
       {"llama.embedding_length"}},
      {"wrong_ffn", "llama", set_uint("feed_forward_length", 95), kMalformed, {"blk.0.ffn_"}},
      {"no_ffn",
       "llama",
       set_uint("feed_forward_length", 0),
       kMalformed,
       {"llama.feed_forward_length"}},
      {"no_heads",
       "llama",
       set_uint("attention.head_count", 0),
       kMalformed,
       {"llama.attention.head_count"}},
      {"no_kv_heads",
       "llama",
       set_uint("attention.head_count_kv", 0),
       kMalformed,
       {"attention.head_count_kv"}},
      {"uneven_heads",
       "llama",
       set_uint("attention.head_count_kv", 3),
       kMalformed,
       {"llama.attention.head_count_kv"}},
      {"more_kv_heads",
       "llama",
       set_uint("attention.head_count_kv", 8),
       kMalformed,
       {"llama.attention.head_count_kv"}},
      {"heads_and_width",
       "llama",
       set_uint("attention.head_count", 5),
       kMalformed,
       {"llama.attention.head_count"}},
      {"absurd_heads",
       "qwen3",
       set_uint("attention.head_count", 0xFFFFFFFE),
       kMalformed,
       {"qwen3.attention.head_count"}},
      {"other_heads",
       "llama",
       [](TinyFile& file) {
         file.set_uint("llama.attention.head_count", 8);
         file.keys.erase("llama.rope.dimension_count");
         file.tensors.erase("rope_freqs.weight");
       },
       kMalformed,
       {"blk.0.attn_"}},
      {"values_and_keys",
       "qwen3",
       set_uint("attention.value_length", 16),
       kUnsupported,
       {"qwen3.attention.value_length"}},
      {"short_array",
       "lfm2",
       set_uints("attention.head_count_kv", {0, 2, 0}),
       kMalformed,
       {"lfm2.attention.head_count_kv"}},
      {"text_for_number",
       "llama",
       set_string("block_count", "three"),
       kMalformed,
       {"llama.block_count", "three"}},
      {"negative_epsilon",
       "llama",
       set_float("attention.layer_norm_rms_epsilon", -1),
       kMalformed,
       {"llama.attention.layer_norm_rms_epsilon"}},
      {"nan_epsilon",
       "llama",
       set_float("attention.layer_norm_rms_epsilon", NAN),
       kMalformed,
       {"llama.attention.layer_norm_rms_epsilon"}},
      {"context_zero",
       "llama",
       set_uint("context_length", 0),
       kMalformed,
       {"llama.context_length"}},
      {"vocab_size",
       "llama",
       set_uint("vocab_size", 97),
       kMalformed,
       {"llama.vocab_size", "token_embd.weight"}},
      {"tokens", "llama", tokens(97), kMalformed, {"tokenizer.ggml.tokens", "token_embd.weight"}},
      {"bos",
       "llama",
       [](TinyFile& file) { file.set_uint("tokenizer.ggml.bos_token_id", 96); },
       kMalformed,
       {"tokenizer.ggml.bos_token_id", "96"}},
      {"eos",
       "llama",
       [](TinyFile& file) {
         tokens(50)(file);  // the last rows of the table are padding
         file.set_uint("tokenizer.ggml.eos_token_id", 50);
       },
       kMalformed,
       {"tokenizer.ggml.eos_token_id", "50"}},
      {"taps",
       "lfm2",
       set_uint("shortconv.l_cache", 4),
       kMalformed,
       {"blk.0.shortconv.conv.weight"}},
      {"one_tap",
       "lfm2",
       [](TinyFile& file) {
         file.set_uint("lfm2.shortconv.l_cache", 1);
         for (auto& [name, tensor] : file.tensors)
           if (name.ends_with("shortconv.conv.weight")) tensor = {{1, 64}, std::vector<float>(64)};
       },
       kMalformed,
       {"taps"}},
      {"rank",
       "llama",
       reshape("blk.0.attn_q.weight", {64, 64, 2}),
       kMalformed,
       {"blk.0.attn_q.weight", "[64, 64, 2]"}},
      {"table_rank",
       "llama",
       reshape("token_embd.weight", {64}),
       kMalformed,
       {"token_embd.weight"}},
      {"vector_size",
       "llama",
       reshape("blk.2.ffn_norm.weight", {63}),
       kMalformed,
       {"blk.2.ffn_norm.weight", "[63]", "[64]"}},
      {"head_rows",
       "llama_linear",
       reshape("output.weight", {64, 255}),
       kMalformed,
       {"output.weight", "[64, 255]"}},
  };
}

std::vector<Malformed> unsupported_features() {
  return {
      {"experts", "llama", set_uint("expert_count", 8), kUnsupported, {"llama.expert_count"}},
      {"window",
       "llama",
       set_uint("attention.sliding_window", 256),
       kUnsupported,
       {"llama.attention.sliding_window", "256"}},
      {"soft_cap",
       "llama",
       set_float("attn_logit_softcapping", 50),
       kUnsupported,
       {"llama.attn_logit_softcapping"}},
      {"logit_cap",
       "llama",
       set_float("final_logit_softcapping", 30),
       kUnsupported,
       {"llama.final_logit_softcapping"}},
      {"logit_scale", "llama", set_float("logit_scale", 8), kUnsupported, {"llama.logit_scale"}},
      {"bidirectional",
       "lfm2",
       [](TinyFile& file) { file.set_bool("lfm2.attention.causal", false); },
       kUnsupported,
       {"lfm2.attention.causal"}},
      {"activation",
       "llama",
       set_string("hidden_activation", "gelu"),
       kUnsupported,
       {"llama.hidden_activation", "gelu"}},
      {"axes",
       "qwen2",
       set_uints("rope.dimension_sections", {4, 2, 2, 0}),
       kUnsupported,
       {"qwen2.rope.dimension_sections"}},
      {"rope_type",
       "llama",
       set_string("rope.scaling.type", "longrope"),
       kUnsupported,
       {"llama.rope.scaling.type", "longrope"}},
      {"rope_base", "llama", set_float("rope.freq_base", 0), kMalformed, {"llama.rope.freq_base"}},
      {"rope_odd",
       "llama",
       set_uint("rope.dimension_count", 15),
       kMalformed,
       {"llama.rope.dimension_count"}},
      {"rope_wide",
       "llama",
       set_uint("rope.dimension_count", 18),
       kMalformed,
       {"llama.rope.dimension_count"}},
      {"rope_factor",
       "llama",
       set_float("rope.scaling.factor", -2),
       kMalformed,
       {"llama.rope.scaling.factor"}},
      {"rope_factors",
       "llama",
       [](TinyFile& file) { file.tensors.at("rope_freqs.weight").values[3] = 0; },
       kMalformed,
       {"rope_freqs.weight"}},
      {"rope_factor_count",
       "llama",
       reshape("rope_freqs.weight", {7}),
       kMalformed,
       {"rope_freqs.weight"}},
      {"yarn_log",
       "llama_yarn",
       set_float("rope.scaling.yarn_log_multiplier", 0.1),
       kUnsupported,
       {"llama.rope.scaling.yarn_log_multiplier"}},
  };
}

std::vector<Malformed> all_malformed() {
  std::vector<Malformed> all = missing_and_unknown();
  for (const auto& more : {wrong_numbers(), unsupported_features()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

class MalformedModel : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedModel, IsAnErrorThatNamesTheCulprit) {
  const Malformed& malformed = GetParam();
  TinyFile file = convert(load_fixture(malformed.fixture));
  malformed.change(file);
  const auto loaded = try_load(file.bytes());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, malformed.code) << loaded.error().text();
  for (const std::string& part : malformed.says)
    EXPECT_NE(loaded.error().text().find(part), std::string::npos) << loaded.error().text();
  EXPECT_EQ(loaded.error().where, "tiny.gguf");
}

INSTANTIATE_TEST_SUITE_P(Models, MalformedModel, ::testing::ValuesIn(all_malformed()),
                         [](const auto& test) { return test.param.what; });

/// Gives every tensor with this ending another type id, in the bytes of the file: our writer knows
/// only types that we run.
void patch_types(std::vector<std::byte>& bytes, const std::string& name, uint32_t type) {
  const std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = content.find(name);
  ASSERT_NE(at, std::string::npos);
  uint32_t rank = 0;
  std::memcpy(&rank, &bytes[at + name.size()], sizeof rank);
  std::memcpy(&bytes[at + name.size() + 4 + 8 * rank], &type, sizeof type);
}

TEST(Types, AllThatCannotRunAreNamedAtOnce) {
  // IQ4_NL and Q8_1-like types have blocks smaller than the F32 data that is there, so the file
  // stays valid.
  std::vector<std::byte> bytes = convert(load_fixture("llama")).bytes();
  patch_types(bytes, "blk.0.attn_q.weight", 20);
  patch_types(bytes, "blk.1.attn_q.weight", 20);
  patch_types(bytes, "blk.2.ffn_up.weight", 26);
  const auto loaded = try_load(bytes);
  ASSERT_FALSE(loaded.has_value());
  const std::string text = loaded.error().text();
  EXPECT_EQ(loaded.error().code, ErrorCode::unsupported) << text;
  for (const char* part : {"IQ4_NL (2 tensors, the first is 'blk.0.attn_q.weight')",
                           "I32 (1 tensors", "blk.2.ffn_up.weight", "Q4_K", "BF16"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Opened, ForMetadataOnlyIsNoModel) {
  const std::vector<std::byte> bytes = convert(load_fixture("qwen3")).bytes();
  const std::string path = ::testing::TempDir() + "/metadata_only.gguf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  const auto file = gguf::File::open(path, {.use_mmap = true, .metadata_only = true});
  ASSERT_TRUE(file.has_value()) << file.error().text();
  const auto model = Model::load(*file);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::invalid_argument);
}

class Reports : public ::testing::Test {
 protected:
  Reports() {
    set_log_sink([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      if (level == LogLevel::warning) text_ += std::string(message) + "\n";
    });
  }
  ~Reports() override { set_log_sink({}); }

  std::mutex mutex_;
  std::string text_;
};

TEST_F(Reports, UnreadKeysAndHarmlessTensors) {
  TinyFile file = convert(load_fixture("llama"));
  file.set_uint("llama.brand_new_setting", 3);
  add_vector("blk.0.attn_rot_embd.weight", 8)(file);
  const auto loaded = try_load(file.bytes());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
  EXPECT_NE(text_.find("llama.brand_new_setting"), std::string::npos) << text_;
  EXPECT_NE(text_.find("blk.0.attn_rot_embd.weight"), std::string::npos) << text_;
}

TEST_F(Reports, NothingForPlainModels) {
  for (const std::string& name : fixture_names()) {
    const auto loaded = try_load(convert(load_fixture(name)).bytes());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
  }
  EXPECT_EQ(text_, "");
}

/// Settings that are there but say nothing, and other spellings of the same.
TEST(Accepted, NeutralSettings) {
  TinyFile file = convert(load_fixture("llama"));
  file.set_uint("llama.expert_count", 0);
  file.set_float("llama.logit_scale", 1);
  file.set_bool("llama.attention.causal", true);
  file.set_uint("llama.attention.sliding_window", 512);
  file.set_uint("llama.vocab_size", 90);
  file.set_uints("llama.attention.head_count", {4, 4, 4});
  file.set_uints("llama.attention.head_count_kv", {2, 2, 2});
  file.set_uints("llama.feed_forward_length", {96, 96, 96});
  tokens(90)(file);
  const auto loaded = try_load(file.bytes());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
  const Plan plain = load(convert(load_fixture("llama"))).model->plan();
  EXPECT_EQ(dump(loaded->model->plan()), dump(plain));
}

TEST(Accepted, KvHeadsDefaultToHeadsAndBaseToTenThousand) {
  TinyFile file = convert(load_fixture("qwen3"));
  file.keys.erase("qwen3.attention.head_count_kv");
  file.keys.erase("qwen3.rope.freq_base");
  for (const std::string part : {"k", "v"})
    for (int layer = 0; layer < 3; ++layer)
      file.tensors[fmt::format("blk.{}.attn_{}.weight", layer, part)] =
          file.tensors[fmt::format("blk.{}.attn_q.weight", layer)];
  const LoadedModel loaded = load(file);
  EXPECT_EQ(loaded.model->config().n_kv_heads, std::vector<uint32_t>({4, 4, 4}));
  EXPECT_NEAR(loaded.model->plan().ropes.at(0).frequencies.back(), std::pow(10000, -22.0 / 24),
              1e-12);
}

TEST(Accepted, FinalNormOfLfm2UnderItsLaterName) {
  TinyFile file = convert(load_fixture("lfm2"));
  file.tensors["output_norm.weight"] = file.tensors.at("token_embd_norm.weight");
  file.tensors.erase("token_embd_norm.weight");
  EXPECT_TRUE(try_load(file.bytes()).has_value());
}

}  // namespace
}  // namespace cera::tests
