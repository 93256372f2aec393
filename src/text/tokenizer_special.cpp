#include "text/tokenizer_special.h"

#include <algorithm>

namespace cera::text {

uint32_t SpecialMatcher::child(uint32_t node, uint8_t byte) const {
  if (node == 0) return root_children_[byte];
  uint32_t at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].sibling;
  return at;
}

uint32_t SpecialMatcher::step(uint32_t node, uint8_t byte) const {
  while (true) {
    const uint32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fallback;
  }
}

uint32_t SpecialMatcher::child_or_new(uint32_t node, uint8_t byte) {
  if (const uint32_t found = child(node, byte)) return found;
  const auto added = uint32_t(nodes_.size());
  nodes_.push_back({.sibling = nodes_[node].first_child, .byte = byte});
  nodes_[node].first_child = added;
  if (node == 0) root_children_[byte] = added;
  return added;
}

/// Breadth first, so that the fallback of a node (a shorter string) is complete before the node is.
void SpecialMatcher::link_fallbacks() {
  std::vector<uint32_t> order{0};
  order.reserve(nodes_.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t node = order[i];
    for (uint32_t at = nodes_[node].first_child; at != 0; at = nodes_[at].sibling) {
      nodes_[at].fallback = node == 0 ? 0 : step(nodes_[node].fallback, nodes_[at].byte);
      if (nodes_[at].longest < 0) {
        const Node& shorter = nodes_[nodes_[at].fallback];
        nodes_[at].longest = shorter.longest;
        nodes_[at].longest_bytes = shorter.longest_bytes;
      }
      order.push_back(at);
    }
  }
}

Result<SpecialMatcher> SpecialMatcher::build(const Vocabulary& vocabulary,
                                             std::span<const TokenId> tokens) {
  SpecialMatcher made;
  size_t total_bytes = 0;
  for (const TokenId id : tokens) {
    const std::string_view spelling = vocabulary.bytes(id);
    total_bytes += spelling.size();
    if (total_bytes > max_total_bytes) {
      return fail(ErrorCode::malformed, "tokenizer.ggml.tokens",
                  "the special tokens have more than {} bytes together", max_total_bytes);
    }
    uint32_t node = 0;
    for (size_t i = spelling.size(); i-- > 0;) node = made.child_or_new(node, uint8_t(spelling[i]));
    made.nodes_[node].longest = id;
    made.nodes_[node].longest_bytes = uint32_t(spelling.size());
  }
  made.link_fallbacks();
  return made;
}

void SpecialMatcher::find(std::string_view text, size_t base,
                          std::vector<SpecialMatch>& matches) const {
  if (empty()) return;
  std::vector<SpecialMatch>
      starts;  // every position where a token starts, last first, with the longest
  uint32_t node = 0;
  for (size_t i = text.size(); i-- > 0;) {
    node = step(node, uint8_t(text[i]));
    const Node& state = nodes_[node];
    if (state.longest >= 0)
      starts.push_back({base + i, base + i + state.longest_bytes, state.longest});
  }
  size_t free_from = 0;
  for (auto match = starts.rbegin(); match != starts.rend(); ++match) {
    if (match->begin < free_from) continue;
    matches.push_back(*match);
    free_from = match->end;
  }
}

}  // namespace cera::text
