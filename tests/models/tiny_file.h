#pragma once
// GGUF files in memory that tests can change before they are written, and random models in that
// form.

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gguf/gguf.h"

namespace cera::tests {

// The generator of the script, to the same bits.

inline uint64_t fnv1a(std::string_view text) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const char c : text) value = (value ^ uint8_t(c)) * 0x100000001B3u;
  return value;
}

/// splitmix64 at counter index + 1.
inline uint64_t random_word(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

inline std::vector<float> random_values(uint64_t seed, size_t count, float mean, float std) {
  const float scale = std / 37837.0f;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t w = random_word(seed, i);
    const int64_t sum = int64_t(w & 0xFFFF) + int64_t(w >> 16 & 0xFFFF) +
                        int64_t(w >> 32 & 0xFFFF) + int64_t(w >> 48);
    values[i] = float(sum - 131070) * scale + mean;
  }
  return values;
}

/// A GGUF file before it is written. Values are f32 here and packed as `type` on writing.
struct TinyFile {
  struct Tensor {
    std::vector<uint64_t> dimensions;  // the contiguous one first
    std::vector<float> values;
    TensorType type = TensorType::f32;
  };
  std::map<std::string, gguf::Entry> keys;
  std::map<std::string, Tensor> tensors;

  void set_uint(const std::string& key, uint64_t value) {
    keys[key] = {gguf::ValueType::u32, value};
  }
  void set_float(const std::string& key, double value) {
    keys[key] = {gguf::ValueType::f32, value};
  }
  void set_bool(const std::string& key, bool value) {
    keys[key] = {gguf::ValueType::boolean, value};
  }
  void set_string(const std::string& key, std::string value) {
    keys[key] = {gguf::ValueType::string, std::move(value)};
  }
  void set_uints(const std::string& key, std::vector<uint64_t> values) {
    auto array = std::make_shared<gguf::Array>();
    array->element_type = gguf::ValueType::u32;
    array->values = std::move(values);
    keys[key] = {gguf::ValueType::array, std::shared_ptr<const gguf::Array>(std::move(array))};
  }
  std::string architecture() const {
    return std::get<std::string>(keys.at("general.architecture").value);
  }
  /// "rope.freq_base" -> "llama.rope.freq_base"
  std::string key(const std::string& name) const { return architecture() + "." + name; }

  /// Throws when this cannot be a file at all.
  std::vector<std::byte> bytes() const {
    gguf::Writer writer;
    for (const auto& [name, entry] : keys) writer.set(name, entry.value, entry.type);
    std::vector<std::vector<std::byte>> packed;
    for (const auto& [name, tensor] : tensors) {
      const TypeInfo& type = type_info(tensor.type);
      auto& data = packed.emplace_back(tensor.values.size() / type.block_size * type.block_bytes);
      type.pack(tensor.values.data(), data.data(), tensor.values.size());
      writer.add_tensor(name, tensor.type, tensor.dimensions, data);
    }
    auto written = writer.bytes();
    if (!written) throw std::runtime_error(written.error().text());
    return *written;
  }
};

struct TinyShape {
  std::string architecture = "llama";
  TensorType type = TensorType::f32;  // of all matrices
  uint32_t width = 256, hidden = 512, vocab = 256, layers = 2;
  uint32_t heads = 4, kv_heads = 2, head_dim = 64;
};

/// A random model of one architecture. Blocks of lfm2 have convolution and attention in turn.
class TinyMaker {
 public:
  explicit TinyMaker(const TinyShape& shape) : shape_(shape) {}

  TinyFile make() {
    add_keys();
    add("token_embd.weight", {shape_.width, shape_.vocab}, 0, 1, shape_.type);
    matrix("output.weight", shape_.width, shape_.vocab);
    vector(is("lfm2") ? "token_embd_norm.weight" : "output_norm.weight", shape_.width);
    for (uint32_t layer = 0; layer < shape_.layers; ++layer) add_block(layer);
    return std::move(file_);
  }

 private:
  bool is(std::string_view architecture) const { return shape_.architecture == architecture; }
  bool has_attention(uint32_t layer) const { return !is("lfm2") || layer % 2 == 1; }

  void add(const std::string& name, std::vector<uint64_t> dimensions, float mean, float std,
           TensorType type) {
    size_t count = 1;
    for (const uint64_t n : dimensions) count *= n;
    file_.tensors[name] = {std::move(dimensions), random_values(fnv1a(name), count, mean, std),
                           type};
  }
  void matrix(const std::string& name, uint64_t columns, uint64_t rows) {
    add(name, {columns, rows}, 0, 1 / std::sqrt(float(columns)), shape_.type);
  }
  void vector(const std::string& name, uint64_t size) {
    add(name, {size}, 1, 0.3f, TensorType::f32);
  }

  void add_keys() {
    file_.set_string("general.architecture", shape_.architecture);
    file_.set_uint(file_.key("block_count"), shape_.layers);
    file_.set_uint(file_.key("context_length"), 512);
    file_.set_uint(file_.key("embedding_length"), shape_.width);
    file_.set_uint(file_.key("feed_forward_length"), shape_.hidden);
    file_.set_uint(file_.key("attention.head_count"), shape_.heads);
    file_.set_uint(file_.key("attention.key_length"), shape_.head_dim);
    file_.set_float(file_.key("attention.layer_norm_rms_epsilon"), 1e-5);
    std::vector<uint64_t> kv_heads;
    for (uint32_t layer = 0; layer < shape_.layers; ++layer)
      kv_heads.push_back(has_attention(layer) ? shape_.kv_heads : 0);
    file_.set_uints(file_.key("attention.head_count_kv"), kv_heads);
    if (is("lfm2")) file_.set_uint(file_.key("shortconv.l_cache"), 3);
  }

  void add_block(uint32_t layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const uint32_t width = shape_.width, q = shape_.heads * shape_.head_dim;
    const uint32_t kv = shape_.kv_heads * shape_.head_dim;
    vector(block + "attn_norm.weight", width);
    vector(block + "ffn_norm.weight", width);
    matrix(block + "ffn_gate.weight", width, shape_.hidden);
    matrix(block + "ffn_up.weight", width, shape_.hidden);
    matrix(block + "ffn_down.weight", shape_.hidden, width);
    if (!has_attention(layer)) {
      matrix(block + "shortconv.in_proj.weight", width, 3 * width);
      matrix(block + "shortconv.out_proj.weight", width, width);
      add(block + "shortconv.conv.weight", {3, width}, 0, 0.5f, TensorType::f32);
      return;
    }
    matrix(block + "attn_q.weight", width, q);
    matrix(block + "attn_k.weight", width, kv);
    matrix(block + "attn_v.weight", width, kv);
    matrix(block + "attn_output.weight", q, width);
    if (is("qwen2"))
      for (const auto& [part, size] : {std::pair("q", q), {"k", kv}, {"v", kv}})
        vector(block + "attn_" + part + ".bias", size);
    if (is("qwen3") || is("lfm2"))
      for (const char* part : {"q", "k"})
        vector(block + "attn_" + part + "_norm.weight", shape_.head_dim);
  }

  TinyShape shape_;
  TinyFile file_;
};

inline TinyFile random_model(const TinyShape& shape) {
  return TinyMaker(shape).make();
}

}  // namespace cera::tests
