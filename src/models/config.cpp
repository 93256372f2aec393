#include "models/config.h"

#include <algorithm>
#include <limits>

namespace cera {
namespace {

/// Settings that change the result and that no architecture here computes: anything but the neutral
/// value is refused.
struct Refusal {
  std::string_view key;
  double neutral;
  std::string_view feature;
};
constexpr Refusal kRefusals[] = {
    {"expert_count", 0, "mixture of experts"},
    {"expert_used_count", 0, "mixture of experts"},
    {"attn_logit_softcapping", 0, "soft-capped attention"},
    {"final_logit_softcapping", 0, "soft-capped logits"},
    {"attention.clamp_kqv", 0, "clamped q, k and v"},
    {"attention.max_alibi_bias", 0, "ALiBi positions"},
    {"attention.causal", 1, "bidirectional attention"},
    {"attention.temperature_scale", 0, "attention temperature"},
    {"attention.scale", 0, "an attention scale of its own"},
    {"attention.output_scale", 0, "scaled attention output"},
    {"attention.value_scale", 0, "scaled values"},
    {"attention.shared_kv_layers", 0, "layers that share keys and values"},
    {"use_parallel_residual", 0, "parallel residual"},
    {"embedding_scale", 1, "scaled embeddings"},
    {"residual_scale", 1, "scaled residuals"},
    {"logit_scale", 1, "scaled logits"},
    {"rope.dimension_sections", 0, "multi-axis RoPE"},
    {"nextn_predict_layers", 0, "layers for multi-token prediction"},
};

Result<void> refuse_unsupported(KeyReader& keys, uint32_t context_length) {
  for (const Refusal& refusal : kRefusals) {
    if (keys.is_neutral(refusal.key, refusal.neutral)) continue;
    return keys.wrong(ErrorCode::unsupported, refusal.key, "this build does not compute {}",
                      refusal.feature);
  }
  CERA_TRY(const std::string activation, keys.string_or("hidden_activation", "silu"));
  if (activation != "silu")
    return keys.wrong(ErrorCode::unsupported, "hidden_activation",
                      "is \"{}\"; this build computes silu", activation);
  // A window that covers the whole context masks nothing.
  CERA_TRY(const uint32_t window, keys.uint_or("attention.sliding_window", 0));
  if (window != 0 && window < context_length)
    return keys.wrong(
        ErrorCode::unsupported, "attention.sliding_window",
        "this build does not compute sliding-window attention (window {}, context {})", window,
        context_length);
  return {};
}

Result<uint32_t> read_width(KeyReader& keys, std::string_view key) {
  CERA_TRY(const uint32_t width, keys.uint(key));
  if (width == 0 || width > kMaxWidth)
    return keys.wrong(ErrorCode::malformed, key, "{} is outside 1 to {}", width, kMaxWidth);
  return width;
}

Result<uint32_t> read_block_count(KeyReader& keys) {
  CERA_TRY(const uint32_t n_layers, keys.uint("block_count"));
  const size_t n_tensors = keys.file().tensors().size();
  if (n_layers == 0 || n_layers > n_tensors)
    return keys.wrong(ErrorCode::malformed, "block_count",
                      "{} blocks cannot be: the file has {} tensors", n_layers, n_tensors);
  return n_layers;
}

Result<void> read_heads(KeyReader& keys, ModelConfig& config) {
  CERA_TRY(config.n_heads, keys.per_layer("attention.head_count", config.n_layers));
  config.n_kv_heads = config.n_heads;
  if (keys.has("attention.head_count_kv")) {
    CERA_TRY(config.n_kv_heads, keys.per_layer("attention.head_count_kv", config.n_layers));
  }
  const auto first = std::ranges::find_if(config.n_heads, [](uint32_t n) { return n != 0; });
  if (first == config.n_heads.end())
    return keys.wrong(ErrorCode::malformed, "attention.head_count", "is 0");

  CERA_TRY(const uint32_t key_length, keys.uint_or("attention.key_length", 0));
  if (key_length == 0 && config.n_embd % *first != 0)
    return keys.wrong(ErrorCode::malformed, "attention.head_count",
                      "{} heads do not divide the width {}", *first, config.n_embd);
  config.head_dim = key_length != 0 ? key_length : config.n_embd / *first;
  CERA_TRY(const uint32_t value_length, keys.uint_or("attention.value_length", config.head_dim));
  if (value_length != config.head_dim)
    return keys.wrong(ErrorCode::unsupported, "attention.value_length",
                      "heads of {} values and {} keys: this build needs them equal", value_length,
                      config.head_dim);

  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    const uint64_t heads = config.n_heads[layer], kv_heads = config.n_kv_heads[layer];
    if (heads * config.head_dim > kMaxWidth)
      return keys.wrong(ErrorCode::malformed, "attention.head_count",
                        "layer {}: {} heads of {} are too wide", layer, heads, config.head_dim);
    if (kv_heads == 0 ? false : (heads == 0 || heads % kv_heads != 0))
      return keys.wrong(ErrorCode::malformed, "attention.head_count_kv",
                        "layer {}: {} key/value heads do not divide {} heads", layer, kv_heads,
                        heads);
  }
  return {};
}

constexpr std::string_view kTable = "token_embd.weight";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

Result<uint32_t> read_table_rows(const gguf::File& file) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const gguf::TensorInfo* table = file.find_tensor(kTable);
  if (table == nullptr)
    return fail(ErrorCode::not_found, file.path(), "tensor '{}' is missing", kTable);
  const uint64_t rows = table->dimensions.size() == 2 ? table->dimensions[1] : 0;
  if (rows == 0 || rows > kMost)
    return fail(ErrorCode::malformed, file.path(),
                "tensor '{}' should be a matrix of one row per token, up to {}", kTable, kMost);
  return uint32_t(rows);
}

/// The tokens that end or begin texts must exist: the others are never produced by us.
Result<void> check_token_ids(const gguf::File& file, uint64_t n_tokens) {
  for (const char* role : {"bos", "eos", "eot", "eom"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", role);
    CERA_TRY(const auto id, file.find_uint(key));
    if (id && *id >= n_tokens)
      return fail(ErrorCode::malformed, file.path(),
                  "metadata key '{}': token {} is outside the vocabulary of {}", key, *id,
                  n_tokens);
  }
  return {};
}

/// Rows of the embedding, which may have padding rows beyond the vocabulary but never fewer.
Result<uint32_t> read_vocabulary(KeyReader& keys) {
  const gguf::File& file = keys.file();
  CERA_TRY(const uint32_t rows, read_table_rows(file));
  CERA_TRY(const uint32_t stated, keys.uint_or("vocab_size", rows));
  if (stated > rows)
    return keys.wrong(ErrorCode::malformed, "vocab_size", "{} tokens, but tensor '{}' has {} rows",
                      stated, kTable, rows);
  uint64_t n_tokens = rows;
  if (file.has(kTokens)) {
    CERA_TRY(const auto tokens, file.get_strings(kTokens));
    n_tokens = tokens.size();
  }
  if (n_tokens > rows)
    return fail(ErrorCode::malformed, file.path(),
                "metadata key '{}': {} tokens, but tensor '{}' has {} rows", kTokens, n_tokens,
                kTable, rows);
  CERA_CHECK(check_token_ids(file, n_tokens));
  return rows;
}

}  // namespace

Result<ModelConfig> read_config(KeyReader& keys) {
  ModelConfig config;
  CERA_TRY(const auto name, keys.file().find_string("general.name"));
  config.name = name.value_or("");
  CERA_TRY(config.n_layers, read_block_count(keys));
  CERA_TRY(config.n_embd, read_width(keys, "embedding_length"));
  CERA_TRY(config.context_length, keys.uint("context_length"));
  if (config.context_length == 0) return keys.wrong(ErrorCode::malformed, "context_length", "is 0");
  CERA_CHECK(refuse_unsupported(keys, config.context_length));
  CERA_CHECK(read_heads(keys, config));

  CERA_TRY(config.n_ff, keys.per_layer("feed_forward_length", config.n_layers));
  for (const uint32_t width : config.n_ff)
    if (width == 0 || width > kMaxWidth)
      return keys.wrong(ErrorCode::malformed, "feed_forward_length", "{} is outside 1 to {}", width,
                        kMaxWidth);

  CERA_TRY(const double epsilon, keys.number("attention.layer_norm_rms_epsilon"));
  if (epsilon < 0 || epsilon > 1)
    return keys.wrong(ErrorCode::malformed, "attention.layer_norm_rms_epsilon",
                      "{} is outside 0 to 1", epsilon);
  config.norm_eps = float(epsilon);
  CERA_TRY(config.n_vocab, read_vocabulary(keys));
  return config;
}

}  // namespace cera
