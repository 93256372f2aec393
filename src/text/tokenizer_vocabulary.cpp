#include "text/tokenizer_vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "gguf/cursor.h"

namespace cera::text {
namespace {

// A file made so that its strings collide must not make the loader quadratic. Honest vocabularies
// stay two orders of magnitude below this.
constexpr size_t max_probes = 4096;

/// GPT-2's alphabet: visible Latin-1 characters stand for themselves, the others follow from U+0100
/// on. Value: the byte, or -1.
constexpr std::array<int16_t, 0x144> make_alphabet() {
  std::array<int16_t, 0x144> byte_of{};
  byte_of.fill(-1);
  size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    byte_of[visible ? size_t(byte) : next++] = int16_t(byte);
  }
  return byte_of;
}
constexpr auto alphabet = make_alphabet();

Result<TokenKind> token_kind_of(int64_t value, size_t id) {
  if (value == 0) return TokenKind::normal;  // "undefined": old files
  if (value < 1 || value > 6) {
    return fail(ErrorCode::malformed, "tokenizer.ggml.token_type",
                "token {} has the unknown type {}", id, value);
  }
  return TokenKind(value);
}

bool added_kind(TokenKind kind) {
  return kind == TokenKind::control || kind == TokenKind::user_defined ||
         kind == TokenKind::unknown;
}

}  // namespace

bool append_alphabet_bytes(std::string_view spelling, std::string& bytes) {
  const size_t before = bytes.size();
  for (size_t i = 0; i < spelling.size();) {
    const auto lead = static_cast<unsigned char>(spelling[i]);
    unsigned code_point = lead;
    size_t taken = 1;
    if (lead >= 0xc2 && lead <= 0xc5 && i + 1 < spelling.size()) {
      code_point = (lead & 0x1fu) << 6 | (static_cast<unsigned char>(spelling[i + 1]) & 0x3fu);
      taken = 2;
    } else if (lead >= 0x80) {
      code_point = alphabet.size();
    }
    if (code_point >= alphabet.size() || alphabet[code_point] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(alphabet[code_point]);
    i += taken;
  }
  return true;
}

bool Vocabulary::is_added(TokenId id) const {
  return added_kind(kinds_[id]);
}

std::optional<TokenId> Vocabulary::find(const Index& index, std::string_view key) const {
  if (index.empty() || key.empty()) return std::nullopt;
  const size_t mask = index.size() - 1;
  for (size_t slot = std::hash<std::string_view>{}(key)&mask; index[slot] >= 0;
       slot = (slot + 1) & mask) {
    if (bytes(index[slot]) == key) return index[slot];
  }
  return std::nullopt;
}

Result<void> Vocabulary::insert(Index& index, TokenId id) {
  const std::string_view key = bytes(id);
  if (key.empty()) return {};  // no text can be one
  const size_t mask = index.size() - 1;
  size_t slot = std::hash<std::string_view>{}(key)&mask;
  for (size_t probes = 0; index[slot] >= 0; slot = (slot + 1) & mask) {
    if (bytes(index[slot]) == key) {
      return fail(ErrorCode::malformed, "tokenizer.ggml.tokens", "tokens {} and {} are both {}",
                  index[slot], id, gguf::quoted(key));
    }
    if (++probes == max_probes) {
      return fail(ErrorCode::malformed, "tokenizer.ggml.tokens",
                  "token {}: the strings look made to collide", id);
    }
  }
  index[slot] = id;
  return {};
}

Result<Vocabulary> Vocabulary::build(std::span<const std::string> spellings,
                                     std::span<const int64_t> kinds) {
  const char* const key = "tokenizer.ggml.tokens";
  if (spellings.empty()) return fail(ErrorCode::malformed, key, "the vocabulary is empty");
  if (spellings.size() > max_tokens) {
    return fail(ErrorCode::malformed, key, "{} tokens; at most {} are possible", spellings.size(),
                max_tokens);
  }
  if (!kinds.empty() && kinds.size() != spellings.size()) {
    return fail(ErrorCode::malformed, "tokenizer.ggml.token_type", "{} types for {} tokens",
                kinds.size(), spellings.size());
  }
  Vocabulary made;
  made.begin_.reserve(spellings.size() + 1);
  made.kinds_.reserve(spellings.size());
  std::vector<bool> verbatim(spellings.size());
  for (size_t id = 0; id < spellings.size(); ++id) {
    const std::string& spelling = spellings[id];
    if (spelling.size() > max_token_bytes || made.arena_.size() + spelling.size() > UINT32_MAX) {
      return fail(ErrorCode::malformed, key, "token {} is {} bytes long; at most {} are possible",
                  id, spelling.size(), max_token_bytes);
    }
    CERA_TRY(const TokenKind kind, token_kind_of(kinds.empty() ? 1 : kinds[id], id));
    made.begin_.push_back(uint32_t(made.arena_.size()));
    made.kinds_.push_back(kind);
    verbatim[id] = added_kind(kind) || !append_alphabet_bytes(spelling, made.arena_);
    if (verbatim[id]) made.arena_ += spelling;
  }
  made.begin_.push_back(uint32_t(made.arena_.size()));
  made.arena_.shrink_to_fit();

  const size_t n_verbatim = size_t(std::count(verbatim.begin(), verbatim.end(), true));
  made.ordinary_.assign(std::bit_ceil((spellings.size() - n_verbatim) * 3 / 2 + 1), -1);
  made.verbatim_.assign(std::bit_ceil(n_verbatim * 3 / 2 + 1), -1);
  for (size_t id = 0; id < spellings.size(); ++id) {
    CERA_CHECK(made.insert(verbatim[id] ? made.verbatim_ : made.ordinary_, TokenId(id)));
  }
  return made;
}

std::optional<TokenId> Vocabulary::find_ordinary(std::string_view bytes) const {
  const auto id = find(ordinary_, bytes);
  return id && !is_added(*id) ? id : std::nullopt;
}

std::optional<TokenId> Vocabulary::find_spelling(std::string_view spelling) const {
  if (const auto id = find(verbatim_, spelling)) return id;
  std::string bytes;
  if (!append_alphabet_bytes(spelling, bytes)) return std::nullopt;
  return find(ordinary_, bytes);
}

}  // namespace cera::text
