#pragma once
// The token list of a byte-level BPE vocabulary: what each id stands for, and which id stands for
// what.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace cera::text {

/// Ordinary tokens are stored in the byte-level alphabet of GPT-2, in which every byte is a
/// printable character ("Ġ" is a space), and are kept here as the bytes they mean. Added tokens
/// (control, user-defined, unknown) are stored verbatim, and so is the odd entry with a character
/// outside that alphabet.
class Vocabulary {
 public:
  static constexpr size_t max_tokens = 16u << 20;
  static constexpr size_t max_token_bytes = 64u << 10;

  /// `kinds` is empty (all normal) or as long as `spellings`.
  static Result<Vocabulary> build(std::span<const std::string> spellings,
                                  std::span<const int64_t> kinds);

  size_t size() const { return kinds_.size(); }
  bool contains(TokenId id) const { return id >= 0 && size_t(id) < size(); }
  /// Both want an id inside the vocabulary.
  std::string_view bytes(TokenId id) const {
    return std::string_view(arena_).substr(begin_[id], begin_[id + 1] - begin_[id]);
  }
  TokenKind kind(TokenId id) const { return kinds_[id]; }
  /// Control, user-defined or unknown: text reaches it as a whole or not at all, never by merging.
  bool is_added(TokenId id) const;
  /// From now on the token is a control token.
  void make_control(TokenId id) { kinds_[id] = TokenKind::control; }

  /// The ordinary token that means exactly these bytes.
  std::optional<TokenId> find_ordinary(std::string_view bytes) const;
  /// The token stored as exactly this.
  std::optional<TokenId> find_spelling(std::string_view spelling) const;

 private:
  // Open addressing; a slot holds an id or -1. The key is bytes(id).
  using Index = std::vector<TokenId>;
  std::optional<TokenId> find(const Index& index, std::string_view key) const;
  Result<void> insert(Index& index, TokenId id);

  std::string arena_;
  std::vector<uint32_t> begin_;  // [size() + 1] offsets into arena_
  std::vector<TokenKind> kinds_;
  Index ordinary_, verbatim_;
};

/// Appends the bytes that a spelling in the byte-level alphabet means; false (and `bytes` as it
/// was) when a character is not of that alphabet.
bool append_alphabet_bytes(std::string_view spelling, std::string& bytes);

}  // namespace cera::text
