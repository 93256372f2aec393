#pragma once
// The fixtures of tools/make_tiny_models.py: tiny random models, converted to GGUF here, in memory,
// and the logits that transformers computes for them.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/tiny_file.h"

namespace cera::tests {

using Json = nlohmann::json;

/// A model and the bytes that its weights point into.
struct LoadedModel {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::shared_ptr<const Model> model;
};

inline Result<LoadedModel> try_load(std::vector<std::byte> content) {
  LoadedModel loaded;
  loaded.bytes = std::make_shared<const std::vector<std::byte>>(std::move(content));
  CERA_TRY(auto file, gguf::File::from_bytes(*loaded.bytes, "tiny.gguf"));
  CERA_TRY(loaded.model, Model::load(std::move(file)));
  return loaded;
}

inline LoadedModel load(const TinyFile& file) {
  auto loaded = try_load(file.bytes());
  if (!loaded) throw std::runtime_error(loaded.error().text());
  return *loaded;
}

struct Fixture {
  std::string name;
  std::string architecture;
  Json config;  // as transformers has it
  std::vector<int32_t> ids;
  std::map<std::string, TinyFile::Tensor> tensors;  // transformers' names
  std::vector<float> logits;                        // [ids, vocab]
  uint32_t n_vocab = 0;
};

inline std::vector<std::string> fixture_names() {
  return {"lfm2", "llama", "llama_linear", "llama_yarn", "qwen2", "qwen2_tied", "qwen3"};
}

inline Fixture load_fixture(const std::string& name) {
  const std::string stem = std::string(CERA_SOURCE_DIR) + "/tests/models/fixtures/" + name;
  const Json json = Json::parse(std::ifstream(stem + ".json"));
  Fixture fixture{.name = name,
                  .architecture = json["architecture"],
                  .config = json["config"],
                  .ids = json["ids"],
                  .tensors = {},
                  .logits = {},
                  .n_vocab = json["config"]["vocab_size"]};
  for (const Json& recipe : json["tensors"]) {
    const std::vector<uint64_t> shape = recipe["shape"];
    size_t count = 1;
    for (const uint64_t n : shape) count *= n;
    const std::string tensor = recipe["name"];
    fixture.tensors[tensor] = {
        {shape.rbegin(), shape.rend()},
        random_values(fnv1a(name + "/" + tensor), count, recipe["mean"], recipe["std"])};
  }
  fixture.logits.resize(fixture.ids.size() * fixture.n_vocab);
  std::ifstream bin(stem + ".bin", std::ios::binary);
  bin.read(reinterpret_cast<char*>(fixture.logits.data()),
           std::streamsize(fixture.logits.size() * sizeof(float)));
  EXPECT_TRUE(bin.good()) << stem << ".bin";
  return fixture;
}

// Conversion: names, shapes and keys of transformers to those of GGUF.

inline std::string gguf_name(const std::string& name) {
  static const std::map<std::string, std::string> whole = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"model.embedding_norm.weight", "token_embd_norm.weight"},
      {"lm_head.weight", "output.weight"}};
  static const std::map<std::string, std::string> parts = {{"input_layernorm", "attn_norm"},
                                                           {"operator_norm", "attn_norm"},
                                                           {"post_attention_layernorm", "ffn_norm"},
                                                           {"ffn_norm", "ffn_norm"},
                                                           {"self_attn.q_proj", "attn_q"},
                                                           {"self_attn.k_proj", "attn_k"},
                                                           {"self_attn.v_proj", "attn_v"},
                                                           {"self_attn.o_proj", "attn_output"},
                                                           {"self_attn.out_proj", "attn_output"},
                                                           {"self_attn.q_norm", "attn_q_norm"},
                                                           {"self_attn.k_norm", "attn_k_norm"},
                                                           {"self_attn.q_layernorm", "attn_q_norm"},
                                                           {"self_attn.k_layernorm", "attn_k_norm"},
                                                           {"mlp.gate_proj", "ffn_gate"},
                                                           {"mlp.up_proj", "ffn_up"},
                                                           {"mlp.down_proj", "ffn_down"},
                                                           {"feed_forward.w1", "ffn_gate"},
                                                           {"feed_forward.w3", "ffn_up"},
                                                           {"feed_forward.w2", "ffn_down"},
                                                           {"conv.conv", "shortconv.conv"},
                                                           {"conv.in_proj", "shortconv.in_proj"},
                                                           {"conv.out_proj", "shortconv.out_proj"}};
  if (const auto found = whole.find(name); found != whole.end()) return found->second;
  const std::string rest = name.substr(std::string("model.layers.").size());
  const size_t dot = rest.find('.'), last = rest.rfind('.');
  return "blk." + rest.substr(0, dot) + "." + parts.at(rest.substr(dot + 1, last - dot - 1)) +
         rest.substr(last);
}

/// Reorders the rows of q or k (matrix or bias) from rotating halves to rotating neighbours.
inline void interleave_heads(TinyFile::Tensor& tensor, uint64_t n_heads) {
  const uint64_t n_rows = tensor.dimensions.back(), head_dim = n_rows / n_heads;
  const uint64_t width = tensor.values.size() / n_rows;
  const std::vector<float> from = tensor.values;
  for (uint64_t row = 0; row < n_rows; ++row) {
    const uint64_t head = row / head_dim, pair = row % head_dim / 2, half = row % 2;
    const uint64_t source = head * head_dim + half * head_dim / 2 + pair;
    std::copy_n(&from[source * width], width, &tensor.values[row * width]);
  }
}

/// Llama 3's frequency factors: long waves are slowed by `factor`, short ones kept, those between
/// blended.
inline std::vector<float> llama3_factors(const Json& rope, uint32_t head_dim) {
  const double base = rope["rope_theta"], factor = rope["factor"];
  const double low = rope["low_freq_factor"], high = rope["high_freq_factor"];
  const double context = rope["original_max_position_embeddings"];
  std::vector<float> factors;
  for (uint32_t i = 0; i < head_dim; i += 2) {
    const double turns = context / (2 * M_PI * std::pow(base, double(i) / head_dim));
    const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(float(1 / (keep + (1 - keep) / factor)));
  }
  return factors;
}

inline void convert_rope(const Json& rope, uint32_t head_dim, TinyFile& file) {
  const std::string kind = rope["rope_type"];
  file.set_float(file.key("rope.freq_base"), rope["rope_theta"]);
  file.set_uint(file.key("rope.dimension_count"), head_dim);
  if (kind == "llama3")
    file.tensors["rope_freqs.weight"] = {{head_dim / 2}, llama3_factors(rope, head_dim)};
  if (kind != "linear" && kind != "yarn") return;
  file.set_string(file.key("rope.scaling.type"), kind);
  file.set_float(file.key("rope.scaling.factor"), rope["factor"]);
  if (kind != "yarn") return;
  file.set_uint(file.key("rope.scaling.original_context_length"),
                rope["original_max_position_embeddings"]);
  for (const auto& [from, to] :
       {std::pair("attention_factor", "yarn_attn_factor"), std::pair("beta_fast", "yarn_beta_fast"),
        std::pair("beta_slow", "yarn_beta_slow")})
    if (rope.contains(from))
      file.set_float(file.key(std::string("rope.scaling.") + to), rope[from]);
}

inline TinyFile convert(const Fixture& fixture) {
  const Json& config = fixture.config;
  TinyFile file;
  file.set_string("general.architecture", fixture.architecture);
  file.set_string("general.name", "tiny " + fixture.name);
  const uint64_t layers = config["num_hidden_layers"], heads = config["num_attention_heads"];
  const uint64_t kv_heads = config["num_key_value_heads"], width = config["hidden_size"];
  const uint32_t head_dim = config.value("head_dim", uint32_t(width / heads));
  file.set_uint(file.key("block_count"), layers);
  file.set_uint(file.key("embedding_length"), width);
  file.set_uint(file.key("feed_forward_length"), config["intermediate_size"]);
  file.set_uint(file.key("attention.head_count"), heads);
  file.set_uint(file.key("attention.head_count_kv"), kv_heads);
  file.set_uint(file.key("context_length"), config["max_position_embeddings"]);
  file.set_uint(file.key("vocab_size"), config["vocab_size"]);
  file.set_float(file.key("attention.layer_norm_rms_epsilon"),
                 config.contains("norm_eps") ? config["norm_eps"] : config["rms_norm_eps"]);
  file.set_uint("tokenizer.ggml.bos_token_id", config["bos_token_id"]);
  file.set_uint("tokenizer.ggml.eos_token_id", config["eos_token_id"]);
  if (config.contains("head_dim")) {
    file.set_uint(file.key("attention.key_length"), head_dim);
    file.set_uint(file.key("attention.value_length"), head_dim);
  }
  if (fixture.architecture == "lfm2") {
    std::vector<uint64_t> by_layer;
    for (const std::string kind : config["layer_types"])
      by_layer.push_back(kind == "conv" ? 0 : kv_heads);
    file.set_uints(file.key("attention.head_count_kv"), by_layer);
    file.set_uint(file.key("shortconv.l_cache"), config["conv_L_cache"]);
  }
  convert_rope(config["rope_parameters"], head_dim, file);

  for (const auto& [name, tensor] : fixture.tensors) {
    const std::string to = gguf_name(name);
    TinyFile::Tensor& target = file.tensors[to] = tensor;
    if (to.ends_with("shortconv.conv.weight"))
      target.dimensions.erase(target.dimensions.begin() + 1);
    if (fixture.architecture != "llama") continue;
    if (to.find(".attn_q.") != std::string::npos) interleave_heads(target, heads);
    if (to.find(".attn_k.") != std::string::npos) interleave_heads(target, kv_heads);
  }
  return file;
}

}  // namespace cera::tests
