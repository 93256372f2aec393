#pragma once
// Finds added tokens in text: at the earliest position the longest one, in time linear in the text
// however many tokens there are.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer_vocabulary.h"

namespace cera::text {

struct SpecialMatch {
  size_t begin, end;  // bytes
  TokenId id;
};

/// Aho-Corasick over the reversed spellings, run from the end of the text to its start: its state
/// at a byte tells the longest token that starts there, so that one pass forward over these picks
/// the matches.
class SpecialMatcher {
 public:
  static constexpr size_t max_total_bytes = 4u << 20;

  /// The tokens must have spellings that are not empty and differ.
  static Result<SpecialMatcher> build(const Vocabulary& vocabulary,
                                      std::span<const TokenId> tokens);

  bool empty() const { return nodes_.size() == 1; }
  /// Appends the matches in text, in order and disjoint, with `base` added to their offsets.
  void find(std::string_view text, size_t base, std::vector<SpecialMatch>& matches) const;

 private:
  struct Node {
    uint32_t first_child = 0;  // 0 = none; children form a list
    uint32_t sibling = 0;
    uint32_t fallback = 0;  // the longest proper suffix of this node's string that is a node
    TokenId longest = -1;   // the longest token that is a suffix of this node's string, -1 if none
    uint32_t longest_bytes = 0;
    uint8_t byte = 0;
  };
  uint32_t child(uint32_t node, uint8_t byte) const;
  uint32_t step(uint32_t node, uint8_t byte) const;
  uint32_t child_or_new(uint32_t node, uint8_t byte);
  void link_fallbacks();

  std::vector<Node> nodes_{Node{}};
  std::array<uint32_t, 256> root_children_{};
};

}  // namespace cera::text
