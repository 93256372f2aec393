#pragma once
// Byte-pair merging of one word: the rule of lowest rank first, leftmost first among equals, until
// none applies. O(n log n) in the bytes of the word.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer_vocabulary.h"

namespace cera::text {

/// Immutable after build; safe to use from any thread.
class BpeModel {
 public:
  /// `merges` are "a b" in the byte-level alphabet, in order of rank; a, b and ab must be in the
  /// vocabulary. A rule that makes or takes an added token is left out (see n_left_out): ordinary
  /// text must not become one.
  static Result<BpeModel> build(std::span<const std::string> merges, const Vocabulary& vocabulary);

  struct Merge {
    TokenId left = -1, right = -1;  // left < 0: a free slot
    uint32_t rank = 0;
    TokenId merged = -1;
  };
  /// Null when no rule joins the two.
  const Merge* find(TokenId left, TokenId right) const;
  /// The token of a single byte.
  std::optional<TokenId> byte_token(uint8_t byte) const;
  /// Whether some rule makes this token.
  bool is_merge_result(TokenId id) const { return is_result_[id]; }
  size_t n_left_out() const { return n_left_out_; }

 private:
  Result<Merge> read_rule(std::string_view rule, uint32_t rank, const Vocabulary& vocabulary,
                          std::string& scratch);
  Result<void> insert(const Merge& merge);

  std::vector<Merge> slots_;  // open addressing
  std::array<TokenId, 256> byte_tokens_{};
  std::vector<bool> is_result_;
  size_t n_left_out_ = 0;
};

/// The work space of one thread.
class BpeMerger {
 public:
  /// Both must outlive the merger. `unknown`: stands for a byte that has no token; without it such
  /// bytes are left out and counted.
  BpeMerger(const BpeModel& model, std::optional<TokenId> unknown)
      : model_(model), unknown_(unknown) {}
  /// Appends the ids of a word of less than 4 GiB.
  void encode_word(std::string_view word, std::vector<TokenId>& ids);
  size_t n_left_out_bytes() const { return n_left_out_bytes_; }

 private:
  struct Symbol {
    TokenId id;  // -1: merged into its left neighbour
    uint32_t previous, next;
  };
  void push(uint32_t left);

  const BpeModel& model_;
  std::optional<TokenId> unknown_;
  size_t n_left_out_bytes_ = 0;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // a min-heap of rank << 32 | index of the left symbol
};

}  // namespace cera::text
