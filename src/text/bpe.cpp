#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/assert.h"
#include "gguf/cursor.h"

namespace cera::text {
namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr size_t max_probes = 4096;  // as in Vocabulary: against files made to collide

size_t mix(TokenId left, TokenId right) {
  uint64_t x = uint64_t(uint32_t(left)) << 32 | uint32_t(right);  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The parts of "a b": exactly one space, strictly inside.
std::optional<std::pair<std::string_view, std::string_view>> split_rule(std::string_view rule) {
  const size_t space = rule.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == rule.size())
    return std::nullopt;
  if (rule.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return std::pair(rule.substr(0, space), rule.substr(space + 1));
}

}  // namespace

const BpeModel::Merge* BpeModel::find(TokenId left, TokenId right) const {
  const size_t mask = slots_.size() - 1;
  for (size_t slot = mix(left, right) & mask; slots_[slot].left >= 0; slot = (slot + 1) & mask) {
    if (slots_[slot].left == left && slots_[slot].right == right) return &slots_[slot];
  }
  return nullptr;
}

Result<void> BpeModel::insert(const Merge& merge) {
  const size_t mask = slots_.size() - 1;
  size_t slot = mix(merge.left, merge.right) & mask;
  for (size_t probes = 0; slots_[slot].left >= 0; slot = (slot + 1) & mask) {
    if (slots_[slot].left == merge.left && slots_[slot].right == merge.right) {
      return fail(ErrorCode::malformed, "tokenizer.ggml.merges", "rules {} and {} are the same",
                  slots_[slot].rank, merge.rank);
    }
    if (++probes == max_probes) {
      return fail(ErrorCode::malformed, "tokenizer.ggml.merges",
                  "rule {}: the rules look made to collide", merge.rank);
    }
  }
  slots_[slot] = merge;
  return {};
}

Result<BpeModel> BpeModel::build(std::span<const std::string> merges,
                                 const Vocabulary& vocabulary) {
  const char* const key = "tokenizer.ggml.merges";
  if (merges.size() > Vocabulary::max_tokens) {
    return fail(ErrorCode::malformed, key, "{} rules; at most {} are possible", merges.size(),
                Vocabulary::max_tokens);
  }
  BpeModel made;
  made.slots_.resize(std::bit_ceil(merges.size() * 3 / 2 + 1));
  made.is_result_.resize(vocabulary.size());
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text[] = {static_cast<char>(byte)};
    made.byte_tokens_[byte] = vocabulary.find_ordinary({text, 1}).value_or(-1);
  }
  std::string scratch;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    CERA_TRY(const Merge merge, made.read_rule(merges[rank], uint32_t(rank), vocabulary, scratch));
    if (merge.left < 0) continue;
    CERA_CHECK(made.insert(merge));
    made.is_result_[merge.merged] = true;
  }
  return made;
}

/// A free Merge for a rule that no text can meet.
Result<BpeModel::Merge> BpeModel::read_rule(std::string_view rule, uint32_t rank,
                                            const Vocabulary& vocabulary, std::string& scratch) {
  const char* const key = "tokenizer.ggml.merges";
  const auto parts = split_rule(rule);
  if (!parts) {
    return fail(ErrorCode::malformed, key, "rule {} is not two pieces with a space between: {}",
                rank, gguf::quoted(rule));
  }
  scratch.clear();
  bool is_text = append_alphabet_bytes(parts->first, scratch);
  const size_t border = scratch.size();
  is_text = is_text && append_alphabet_bytes(parts->second, scratch);
  if (is_text) {
    const std::string_view bytes = scratch;
    const auto left = vocabulary.find_ordinary(bytes.substr(0, border));
    const auto right = vocabulary.find_ordinary(bytes.substr(border));
    const auto merged = vocabulary.find_ordinary(bytes);
    if (left && right && merged) return Merge{*left, *right, rank, *merged};
  }
  // Characters outside the alphabet never come up in text; added tokens must not. Anything else is
  // an error.
  scratch.assign(parts->first).append(parts->second);
  for (const std::string_view piece : {parts->first, parts->second, std::string_view(scratch)}) {
    if (!vocabulary.find_spelling(piece)) {
      return fail(ErrorCode::malformed, key, "rule {}: {} is not in the vocabulary", rank,
                  gguf::quoted(piece));
    }
  }
  if (is_text) ++n_left_out_;
  return Merge{};
}

std::optional<TokenId> BpeModel::byte_token(uint8_t byte) const {
  const TokenId id = byte_tokens_[byte];
  return id >= 0 ? std::optional(id) : std::nullopt;
}

void BpeMerger::push(uint32_t left) {
  const uint32_t right = symbols_[left].next;
  if (right == none) return;
  if (const auto* merge = model_.find(symbols_[left].id, symbols_[right].id)) {
    queue_.push_back(uint64_t(merge->rank) << 32 | left);
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>{});
  }
}

void BpeMerger::encode_word(std::string_view word, std::vector<TokenId>& ids) {
  CERA_ASSERT(word.size() < none);
  symbols_.clear();
  queue_.clear();
  for (const char c : word) {
    std::optional<TokenId> id = model_.byte_token(uint8_t(c));
    if (!id) id = unknown_;
    if (!id) {
      ++n_left_out_bytes_;
      continue;
    }
    const auto at = uint32_t(symbols_.size());
    symbols_.push_back({*id, at == 0 ? none : at - 1, at + 1});
  }
  if (symbols_.empty()) return;
  symbols_.back().next = none;
  for (uint32_t at = 0; at + 1 < symbols_.size(); ++at) push(at);

  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>{});
    const auto rank = uint32_t(queue_.back() >> 32);
    const auto at = uint32_t(queue_.back());
    queue_.pop_back();
    Symbol& left = symbols_[at];
    if (left.id < 0 || left.next == none) continue;
    Symbol& right = symbols_[left.next];
    const auto* merge = model_.find(left.id, right.id);
    if (!merge || merge->rank != rank) continue;  // one of the two has changed since
    left.id = merge->merged;
    left.next = right.next;
    right.id = -1;
    if (left.next != none) symbols_[left.next].previous = at;
    push(at);
    if (left.previous != none) push(left.previous);
  }
  for (uint32_t at = 0; at != none; at = symbols_[at].next) ids.push_back(symbols_[at].id);
}

}  // namespace cera::text
