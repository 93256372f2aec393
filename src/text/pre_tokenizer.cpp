#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/assert.h"
#include "text/pre_tokenizer_unicode.h"

namespace cera::text {
namespace {

// The property White_Space of Unicode. (PCRE2's own \s under UCP also matches U+180E.)
constexpr char white_space[] =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{"
    "3000}";

struct ClassName {
  std::string_view spelling;
  std::string inside;  // what it means between brackets
};

const std::vector<ClassName>& class_names() {
  static const std::vector<ClassName> names = {
      {"\\s", white_space},
      {"\\p{L}", std::string("\\p{L}") + added_letters},
      {"\\p{M}", std::string("\\p{M}") + added_marks},
      {"\\p{N}", std::string("\\p{N}") + added_numbers},
      {"\\p{P}", std::string("\\p{P}") + added_punctuation},
      {"\\p{S}", std::string("\\p{S}") + added_symbols},
  };
  return names;
}

/// The pattern with the classes above written out.
std::string expand_classes(std::string_view pattern) {
  std::string out;
  bool in_brackets = false;
  while (!pattern.empty()) {
    size_t taken = 0;
    if (pattern.starts_with("\\S") && !in_brackets) {
      out.append("[^").append(white_space).append("]");
      taken = 2;
    }
    for (const ClassName& name : class_names()) {
      if (taken || !pattern.starts_with(name.spelling)) continue;
      out += in_brackets ? name.inside : "[" + name.inside + "]";
      taken = name.spelling.size();
    }
    if (!taken) {
      taken = pattern[0] == '\\' ? 2 : 1;
      if (pattern[0] == '[') in_brackets = true;
      if (pattern[0] == ']') in_brackets = false;
      out += pattern.substr(0, taken);
    }
    pattern.remove_prefix(taken);
  }
  return out;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0)
    return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(buffer);
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

}  // namespace

Result<Regex> Regex::compile(std::string_view pattern) {
  const std::string expanded = expand_classes(pattern);
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code = pcre2_compile(units(expanded), expanded.size(), PCRE2_UTF | PCRE2_UCP, &error,
                                   &place, nullptr);
  if (!code) {
    return fail(ErrorCode::internal, "pre-tokenizer", "PCRE2 refuses {} at {}: {}", expanded, place,
                pcre2_message(error));
  }
  Regex regex;
  regex.code_ = std::shared_ptr<const void>(
      code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
  // Without JIT (some hardened systems forbid it) the interpreter gives the same matches, more
  // slowly.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  // The rules below backtrack over at most one run of one class, so that work is linear in the
  // text; the library's default limit would make the interpreter give up on a run of 10 million
  // spaces.
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  if (!limits)
    return fail(ErrorCode::out_of_memory, "pre-tokenizer", "no memory for a PCRE2 context");
  regex.limits_ = std::shared_ptr<void>(
      limits, [](void* p) { pcre2_match_context_free(static_cast<pcre2_match_context*>(p)); });
  pcre2_set_match_limit(limits, UINT32_MAX);
  return regex;
}

Regex::Matcher::Matcher(const Regex& regex)
    : regex_(regex), data_(pcre2_match_data_create(1, nullptr), [](void* p) {
        pcre2_match_data_free(static_cast<pcre2_match_data*>(p));
      }) {}

Result<Regex::Match> Regex::Matcher::next(std::string_view text, size_t offset) {
  auto* data = static_cast<pcre2_match_data*>(data_.get());
  if (!data)
    return fail(ErrorCode::out_of_memory, "pre-tokenizer", "no memory for PCRE2 match data");
  const int found = pcre2_match(static_cast<const pcre2_code*>(regex_.code_.get()), units(text),
                                text.size(), offset, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data,
                                static_cast<pcre2_match_context*>(regex_.limits_.get()));
  if (found == PCRE2_ERROR_NOMATCH) return Match{false, text.size(), text.size()};
  if (found < 0) {
    return fail(ErrorCode::internal, "pre-tokenizer", "PCRE2 gave up at byte {} of {}: {}", offset,
                text.size(), pcre2_message(found));
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
  CERA_ASSERT(ends[0] >= offset && ends[1] > ends[0] && ends[1] <= text.size());
  return Match{true, ends[0], ends[1]};
}

Result<PreTokenizer> PreTokenizer::create(const PreTokenizerRule& rule) {
  PreTokenizer made;
  for (const char* pattern : rule.patterns) {
    CERA_TRY(Regex regex, Regex::compile(pattern));
    made.stages_.push_back(std::move(regex));
  }
  return made;
}

Result<std::vector<size_t>> PreTokenizer::split(std::string_view text) const {
  std::vector<size_t> pieces;
  if (text.empty()) return pieces;
  pieces.push_back(text.size());
  std::vector<size_t> finer;
  for (const Regex& stage : stages_) {
    finer.clear();
    Regex::Matcher matcher(stage);
    size_t begin = 0;
    for (const size_t end : pieces) {
      const std::string_view piece = text.substr(begin, end - begin);
      for (size_t offset = 0; offset < piece.size();) {
        CERA_TRY(const Regex::Match match, matcher.next(piece, offset));
        if (match.begin > offset) finer.push_back(begin + match.begin);
        if (match.found) finer.push_back(begin + match.end);
        offset = match.end;
      }
      begin = end;
    }
    pieces.swap(finer);
  }
  return pieces;
}

}  // namespace cera::text
