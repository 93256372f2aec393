#pragma once
// A small byte-level vocabulary built in memory: the 256 bytes first (id = byte), then what a test
// adds.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace cera::text {

/// Bytes as GPT-2 spells them: one printable character each.
inline std::string spell(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const bool visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    unsigned code = byte;
    if (!visible)
      code = 0x100u + byte - (byte <= 0x20 ? 0u : byte <= 0xa0 ? 0x7fu - 0x21u : 0xadu - 0x43u);
    if (code < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xc0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return out;
}

struct TinyVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;
  std::vector<std::string> merges;
  std::string pre = "gpt-2";
  std::function<void(gguf::Writer&)> more;  // other keys

  TinyVocabulary() {
    for (int byte = 0; byte < 256; ++byte) add(spell(std::string(1, static_cast<char>(byte))));
  }

  TokenId add(std::string spelling, TokenKind kind = TokenKind::normal) {
    tokens.push_back(std::move(spelling));
    kinds.push_back(int32_t(kind));
    return TokenId(tokens.size() - 1);
  }
  /// Adds the rule, and the token that it makes; gives the latter's id.
  TokenId merge(std::string_view left, std::string_view right) {
    merges.push_back(spell(left) + " " + spell(right));
    return add(spell(left) + spell(right));
  }

  gguf::Writer writer() const {
    gguf::Writer out;
    out.set_string("tokenizer.ggml.model", "gpt2");
    if (!pre.empty()) out.set_string("tokenizer.ggml.pre", pre);
    out.set_strings("tokenizer.ggml.tokens", tokens);
    out.set_strings("tokenizer.ggml.merges", merges);
    if (!kinds.empty()) out.set_ints("tokenizer.ggml.token_type", kinds);
    if (more) more(out);
    return out;
  }
  Result<std::shared_ptr<const Tokenizer>> load(const TokenizerOptions& options = {}) const {
    CERA_TRY(const std::vector<std::byte> bytes, writer().bytes());
    CERA_TRY(const auto file, gguf::File::from_bytes(bytes));
    return Tokenizer::from_gguf(*file, options);
  }
};

}  // namespace cera::text
