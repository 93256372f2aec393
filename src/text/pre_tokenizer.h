#pragma once
// Pre-tokenizers: the regular expressions that cut text into words before byte-pair merging. A rule
// is a list of expressions; each in turn splits every piece that the former ones left into its
// matches and the gaps between them (the "isolated" Split of tokenizer.json). The expressions are
// the models' published ones.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cera::text {

/// A compiled expression (PCRE2: UTF, UCP, JIT). \s, \S and \p{L,M,N,P,S} mean what Unicode 16 says
/// whatever version the library's own tables have; in particular U+180E is no white space. Safe to
/// use from any thread.
class Regex {
 public:
  /// The pattern is ours, not outside input: a mistake in it is an internal error.
  static Result<Regex> compile(std::string_view pattern);

  struct Match {
    bool found;
    size_t begin, end;  // not empty when found; both text.size() otherwise
  };

  /// The state of a scan: one per thread, reusable over many texts. Refers to its Regex.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    /// The first match at or after `offset`, which is at a code point; `text` must be valid UTF-8.
    /// Fails only when the library refuses (out of memory, a limit).
    Result<Match> next(std::string_view text, size_t offset);

   private:
    const Regex& regex_;
    std::shared_ptr<void> data_;
  };

 private:
  std::shared_ptr<const void> code_;
  std::shared_ptr<void> limits_;
};

struct PreTokenizerRule {
  std::string_view name;  // as in tokenizer.ggml.pre
  std::span<const char* const> patterns;
  bool ignore_merges = false;  // a word that is a vocabulary entry is taken whole
  bool add_bos = false;        // when tokenizer.ggml.add_bos_token is missing
};

/// Null when the name is unknown.
const PreTokenizerRule* find_pre_tokenizer(std::string_view name);
/// All names, for messages.
std::string pre_tokenizer_names();

/// Immutable; safe to use from any thread.
class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const PreTokenizerRule& rule);

  /// The end offset of every word, in order; the last is text.size(). `text` must be valid UTF-8.
  Result<std::vector<size_t>> split(std::string_view text) const;

 private:
  std::vector<Regex> stages_;
};

}  // namespace cera::text
