#include "text/tokenizer_bpe.h"

#include <algorithm>

#include "base/utf8.h"

namespace cera::text {
namespace {

/// The text with each byte that is no part of a well-formed sequence replaced by U+FFFD.
SpanText replace_invalid(const SpanText& text, size_t& n_replaced) {
  const std::string_view all = text.str();
  SpanText clean;
  size_t valid_from = 0;
  for (size_t at = 0; at < all.size();) {
    if (const size_t n = utf8_sequence_bytes(all.substr(at))) {
      at += n;
      continue;
    }
    clean.append(text.substr(valid_from, at - valid_from));
    clean.append("\uFFFD", text.origin_at(at));
    ++n_replaced;
    valid_from = ++at;
  }
  clean.append(text.substr(valid_from));
  return clean;
}

}  // namespace

Result<Encoding> BpeTokenizer::encode(const SpanText& text, const EncodeOptions& options) const {
  if (text.size() > max_text_bytes) {
    return fail(ErrorCode::invalid_argument, "",
                "the text has {} bytes; at most {} can be tokenized at once", text.size(),
                max_text_bytes);
  }
  Encoding encoding;
  encoding.ids.reserve(text.size() / 3 + 8);
  if (is_valid_utf8(text.str())) {
    CERA_CHECK(encode_clean(text, options, encoding));
  } else {
    const SpanText clean = replace_invalid(text, encoding.invalid_bytes);
    CERA_CHECK(encode_clean(clean, options, encoding));
  }
  return encoding;
}

Result<void> BpeTokenizer::encode_clean(const SpanText& text, const EncodeOptions& options,
                                        Encoding& encoding) const {
  const std::string_view all = text.str();
  std::vector<SpecialMatch> matches;
  size_t run_begin = 0;
  for (const SpanText::Run& run : text.runs()) {
    if (run.origin == Origin::template_text) {
      parts_.specials.find(all.substr(run_begin, run.end - run_begin), run_begin, matches);
    }
    run_begin = run.end;
  }

  std::vector<TokenId>& ids = encoding.ids;
  BpeMerger merger(parts_.bpe, parts_.unknown);
  // A text that already starts with BOS as a special token, as chat templates write it, gets no
  // second one.
  const bool has_bos =
      !matches.empty() && matches.front().begin == 0 && matches.front().id == parts_.bos;
  const bool has_eos =
      !matches.empty() && matches.back().end == all.size() && matches.back().id == parts_.eos;
  if (options.add_special && parts_.add_bos && !has_bos) ids.push_back(*parts_.bos);
  const size_t first_end = matches.empty() ? all.size() : matches.front().begin;
  size_t at = 0;
  if (parts_.add_space_prefix && first_end > 0 && all[0] != ' ') {
    CERA_CHECK(encode_ordinary(" " + std::string(all.substr(0, first_end)), merger, ids));
    at = first_end;
  }
  for (const SpecialMatch& match : matches) {
    CERA_CHECK(encode_ordinary(all.substr(at, match.begin - at), merger, ids));
    ids.push_back(match.id);
    at = match.end;
  }
  CERA_CHECK(encode_ordinary(all.substr(at), merger, ids));
  if (options.add_special && parts_.add_eos && !has_eos) ids.push_back(*parts_.eos);
  encoding.left_out_bytes = merger.n_left_out_bytes();
  return {};
}

Result<void> BpeTokenizer::encode_ordinary(std::string_view text, BpeMerger& merger,
                                           std::vector<TokenId>& ids) const {
  std::vector<SpecialMatch> matches;
  parts_.plain_added.find(text, 0, matches);
  size_t at = 0;
  for (const SpecialMatch& match : matches) {
    CERA_CHECK(encode_words(text.substr(at, match.begin - at), merger, ids));
    ids.push_back(match.id);
    at = match.end;
  }
  return encode_words(text.substr(at), merger, ids);
}

Result<void> BpeTokenizer::encode_words(std::string_view text, BpeMerger& merger,
                                        std::vector<TokenId>& ids) const {
  CERA_TRY(const std::vector<size_t> ends, parts_.pre_tokenizer.split(text));
  size_t begin = 0;
  for (const size_t end : ends) {
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    if (parts_.ignore_merges) {
      if (const auto whole = parts_.vocabulary.find_ordinary(word)) {
        ids.push_back(*whole);
        continue;
      }
    }
    merger.encode_word(word, ids);
  }
  return {};
}

std::string_view BpeTokenizer::token_bytes(TokenId id) const {
  return parts_.vocabulary.contains(id) ? parts_.vocabulary.bytes(id) : std::string_view();
}

TokenKind BpeTokenizer::token_kind(TokenId id) const {
  return parts_.vocabulary.contains(id) ? parts_.vocabulary.kind(id) : TokenKind::unused;
}

std::optional<TokenId> BpeTokenizer::find_token(std::string_view spelling) const {
  return parts_.vocabulary.find_spelling(spelling);
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::binary_search(end_of_generation().begin(), end_of_generation().end(), id);
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const gguf::File& file,
                                                              const TokenizerOptions& options) {
  CERA_TRY(BpeTokenizerParts parts, load_bpe_tokenizer(file, options));
  return std::make_shared<const BpeTokenizer>(std::move(parts));
}

}  // namespace cera::text
