#pragma once
// A model whose output is known: one token follows another by a fixed rule, whatever came before.
// Its tokens are the 256 bytes and a few specials. Attention and feed-forward are zero; the
// embedding of token t is the unit vector t, and the head sends it to the token that follows.
//
//   a b c ... z é 世 ! <|im_end|>     0 1 ... 9 0 1 ...     ? \xff ~ <|im_end|>     \n a

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf.h"

namespace cera::tests {

inline constexpr int32_t kScriptBos = 256, kScriptStart = 257, kScriptEnd = 258, kScriptVocab = 260;

/// The output for the prompt "\n" and for every chat.
inline const std::string kScriptText = "abcdefghijklmnopqrstuvwxyz\u00e9\u4e16!";

inline const std::string kScriptTemplate =
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

struct ScriptModelOptions {
  bool chat_template = true;
  bool add_bos = true;
  uint32_t context_length = 512;
};

inline std::array<int32_t, kScriptVocab> script_successors() {
  std::array<int32_t, kScriptVocab> next;
  next.fill(kScriptEnd);
  const auto chain = [&](const std::string& bytes) {
    for (size_t i = 0; i + 1 < bytes.size(); ++i)
      next[static_cast<unsigned char>(bytes[i])] = static_cast<unsigned char>(bytes[i + 1]);
  };
  chain("\n" + kScriptText);
  chain("01234567890");
  chain("?\xff~");
  return next;
}

inline std::string utf8_of(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, char(code_point));
  return {char(0xc0 | (code_point >> 6)), char(0x80 | (code_point & 0x3f))};
}

/// GPT-2's spelling of bytes: printable ones stand for themselves, the others for U+0100 and up.
inline std::vector<std::string> script_vocabulary() {
  std::vector<std::string> tokens;
  uint32_t next_other = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    tokens.push_back(utf8_of(printable ? b : next_other++));
  }
  for (const char* special : {"<|bos|>", "<|im_start|>", "<|im_end|>"})
    tokens.emplace_back(special);
  tokens.push_back(utf8_of(0xfe) +
                   utf8_of(0xff));  // of the one merge, which needs two invalid bytes
  return tokens;
}

inline std::vector<std::byte> script_model(const ScriptModelOptions& options = {}) {
  constexpr uint32_t kWidth = 288, kHead = 32, kFeedForward = 32;  // kWidth: vocabulary rounded up
  gguf::Writer writer;
  writer.set_string("general.architecture", "llama");
  writer.set_string("general.name", "script");
  writer.set_uint("llama.block_count", 1);
  writer.set_uint("llama.embedding_length", kWidth);
  writer.set_uint("llama.feed_forward_length", kFeedForward);
  writer.set_uint("llama.attention.head_count", 1);
  writer.set_uint("llama.attention.head_count_kv", 1);
  writer.set_uint("llama.attention.key_length", kHead);
  writer.set_uint("llama.attention.value_length", kHead);
  writer.set_uint("llama.rope.dimension_count", kHead);
  writer.set_float("llama.rope.freq_base", 10000);
  writer.set_uint("llama.context_length", options.context_length);
  writer.set_uint("llama.vocab_size", kScriptVocab);
  writer.set_float("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "gpt-2");
  writer.set_strings("tokenizer.ggml.tokens", script_vocabulary());
  std::vector<int32_t> kinds(kScriptVocab, 1);
  for (const int32_t special : {kScriptBos, kScriptStart, kScriptEnd}) kinds[size_t(special)] = 3;
  writer.set_ints("tokenizer.ggml.token_type", kinds);
  writer.set_strings("tokenizer.ggml.merges", {utf8_of(0xfe) + " " + utf8_of(0xff)});
  writer.set_uint("tokenizer.ggml.bos_token_id", kScriptBos);
  writer.set_uint("tokenizer.ggml.eos_token_id", kScriptEnd);
  writer.set_bool("tokenizer.ggml.add_bos_token", options.add_bos);
  if (options.chat_template) writer.set_string("tokenizer.chat_template", kScriptTemplate);

  std::vector<float> embedding(size_t(kScriptVocab) * kWidth), head(embedding.size());
  const auto next = script_successors();
  for (size_t t = 0; t < kScriptVocab; ++t) {
    embedding[t * kWidth + t] = 1;
    head[size_t(next[t]) * kWidth + t] = 1;
  }
  const std::vector<float> zeros(kWidth * kHead), ones(kWidth, 1);
  const auto add = [&](const std::string& name, std::vector<uint64_t> dimensions,
                       const std::vector<float>& values) {
    size_t n = 1;
    for (const uint64_t d : dimensions) n *= d;
    writer.add_tensor(name, TensorType::f32, std::move(dimensions),
                      std::as_bytes(std::span(values).first(n)));
  };
  add("token_embd.weight", {kWidth, kScriptVocab}, embedding);
  add("blk.0.attn_norm.weight", {kWidth}, ones);
  add("blk.0.attn_q.weight", {kWidth, kHead}, zeros);
  add("blk.0.attn_k.weight", {kWidth, kHead}, zeros);
  add("blk.0.attn_v.weight", {kWidth, kHead}, zeros);
  add("blk.0.attn_output.weight", {kHead, kWidth}, zeros);
  add("blk.0.ffn_norm.weight", {kWidth}, ones);
  add("blk.0.ffn_gate.weight", {kWidth, kFeedForward}, zeros);
  add("blk.0.ffn_up.weight", {kWidth, kFeedForward}, zeros);
  add("blk.0.ffn_down.weight", {kFeedForward, kWidth}, zeros);
  add("output_norm.weight", {kWidth}, ones);
  add("output.weight", {kWidth, kScriptVocab}, head);
  return writer.bytes().value();
}

}  // namespace cera::tests
