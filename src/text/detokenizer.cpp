#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace cera::text {
namespace {

/// Whether these bytes, at most three, could be the start of a well-formed sequence.
bool is_sequence_start(std::string_view bytes) {
  // Only the first continuation byte is ever restricted, and 0x80 or 0xbf is always among the
  // allowed.
  for (const char first : {'\x80', '\xbf'}) {
    char sequence[6];
    const size_t n = std::min(bytes.size(), sizeof sequence - 3);
    std::copy_n(bytes.data(), n, sequence);
    sequence[n] = first;
    sequence[n + 1] = sequence[n + 2] = '\x80';
    if (utf8_sequence_bytes({sequence, n + 3}) > n) return true;
  }
  return false;
}

/// How many bytes at the start of an ill-formed text one U+FFFD stands for: the longest start of a
/// sequence, or one byte (the Unicode standard's recommended practice, also Rust's and Python's).
size_t ill_formed_bytes(std::string_view text) {
  size_t n = 1;
  while (n < text.size() && n < 3 && is_sequence_start(text.substr(0, n + 1))) ++n;
  return n;
}

}  // namespace

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool show_special)
    : tokenizer_(std::move(tokenizer)), show_special_(show_special) {}

std::string Detokenizer::push(TokenId id) {
  const TokenKind kind = tokenizer_->token_kind(id);
  const bool special = kind == TokenKind::control || kind == TokenKind::unknown ||
                       tokenizer_->is_end_of_generation(id);
  if (special && !show_special_) return {};
  pending_ += tokenizer_->token_bytes(id);

  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    if (const size_t n = utf8_sequence_bytes(rest)) {
      text += rest.substr(0, n);
      rest.remove_prefix(n);
      continue;
    }
    if (rest.size() < 4 && is_sequence_start(rest)) break;  // the next token may complete it
    text += "\uFFFD";
    rest.remove_prefix(ill_formed_bytes(rest));
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string Detokenizer::finish() {
  const std::string text = pending_.empty() ? "" : "\uFFFD";
  pending_.clear();
  return text;
}

}  // namespace cera::text
