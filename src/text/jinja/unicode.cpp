#include "text/jinja/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/assert.h"

namespace cera::text::jinja::unicode {
namespace {

// PCRE2 carries the Unicode tables; asking it about one code point at a time saves us from carrying
// our own.
class Property {
 public:
  explicit Property(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_DOTALL, &error, &offset,
                          nullptr);
    CERA_ASSERT(code_ != nullptr);
  }
  ~Property() { pcre2_code_free(code_); }
  Property(const Property&) = delete;
  Property& operator=(const Property&) = delete;

  bool holds(char32_t c) const {
    if (c >= kInvalid) return false;
    std::string text;
    append(text, c);
    const MatchData match(pcre2_match_data_create(1, nullptr));
    if (!match) return false;
    return pcre2_match(code_, units(text), text.size(), 0, PCRE2_NO_UTF_CHECK, match.get(),
                       nullptr) >= 0;
  }

  /// The code point after the replacement of "\U$0" or "\L$0"; itself when it has no counterpart.
  char32_t mapped(char32_t c, const char* replacement) const {
    if (c >= kInvalid) return c;
    std::string text;
    append(text, c);
    std::array<PCRE2_UCHAR, 16> out;
    PCRE2_SIZE size = out.size();
    const int n = pcre2_substitute(code_, units(text), text.size(), 0,
                                   PCRE2_NO_UTF_CHECK | PCRE2_SUBSTITUTE_EXTENDED, nullptr, nullptr,
                                   reinterpret_cast<PCRE2_SPTR>(replacement), PCRE2_ZERO_TERMINATED,
                                   out.data(), &size);
    if (n < 1 || size == 0) return c;
    return decode({reinterpret_cast<const char*>(out.data()), size}, 0).value;
  }

 private:
  struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  using MatchData = std::unique_ptr<pcre2_match_data, FreeMatch>;
  static PCRE2_SPTR units(const std::string& text) {
    return reinterpret_cast<PCRE2_SPTR>(text.data());
  }
  pcre2_code* code_;
};

constexpr bool ascii_upper(char32_t c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool ascii_lower(char32_t c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool ascii_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

struct Expansion {
  char32_t from;
  std::string_view upper;
};
constexpr Expansion kExpansions[] = {
    {0xDF, "SS"},        {0x149, "\u02BCN"},  {0x1F0, "J\u030C"},  {0x1E96, "H\u0331"},
    {0x1E97, "T\u0308"}, {0x1E98, "W\u030A"}, {0x1E99, "Y\u030A"}, {0x1E9A, "A\u02BE"},
    {0xFB00, "FF"},      {0xFB01, "FI"},      {0xFB02, "FL"},      {0xFB03, "FFI"},
    {0xFB04, "FFL"},     {0xFB05, "ST"},      {0xFB06, "ST"},
};

const Expansion* expansion_of(char32_t c) {
  const auto* found = std::find_if(std::begin(kExpansions), std::end(kExpansions),
                                   [&](const Expansion& e) { return e.from == c; });
  return found == std::end(kExpansions) ? nullptr : found;
}

}  // namespace

CodePoint decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint8_t(text[at + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const uint8_t n = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() - at < n) return {kInvalid, 1};
  char32_t value = first & (0xFFu >> (n + 1));
  for (uint8_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {kInvalid, 1};
    value = (value << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = (n == 3 && value < 0x800) || (n == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (overlong || surrogate || value > 0x10FFFF) return {kInvalid, 1};
  return {value, n};
}

void append(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += char(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += char(0xE0 | (c >> 12));
    tail(6), tail(0);
  } else {
    out += char(0xF0 | (c >> 18));
    tail(12), tail(6), tail(0);
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return uint8_t(c) < 0x80; });
}

size_t length(std::string_view text) {
  size_t n = 0;
  for (size_t at = 0; at < text.size(); at += decode(text, at).n_bytes) ++n;
  return n;
}

size_t byte_of(std::string_view text, size_t n) {
  size_t at = 0;
  for (; n > 0 && at < text.size(); --n) at += decode(text, at).n_bytes;
  return at;
}

size_t previous(std::string_view text, size_t end) {
  for (size_t n = 2; n <= 4 && n <= end; ++n) {
    if (decode(text.substr(0, end), end - n).n_bytes == n) return end - n;
  }
  return end - 1;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_letter(char32_t c) {
  if (c < 0x80) return ascii_upper(c) || ascii_lower(c);
  static const Property property("\\p{L}");
  return property.holds(c);
}

bool is_decimal(char32_t c) {
  if (c < 0x80) return ascii_digit(c);
  static const Property property("\\p{Nd}");
  return property.holds(c);
}

bool is_digit(char32_t c) {
  const bool superscript =
      c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079);
  return superscript || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) ||
         is_decimal(c);
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return ascii_digit(c);
  static const Property property("\\p{N}");
  return property.holds(c);
}

bool is_upper(char32_t c) {
  if (c < 0x80) return ascii_upper(c);
  static const Property property("\\p{Lu}");
  return property.holds(c);
}

bool is_lower(char32_t c) {
  if (c < 0x80) return ascii_lower(c);
  static const Property property("\\p{Ll}|[\\x{AA}\\x{BA}]");
  return property.holds(c);
}

bool is_word(char32_t c) {
  if (c < 0x80) return ascii_upper(c) || ascii_lower(c) || ascii_digit(c) || c == '_';
  static const Property property("[\\p{L}\\p{N}]");
  return property.holds(c);
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  static const Property property("[^\\p{C}\\p{Z}]");
  return property.holds(c);
}

char32_t to_upper(char32_t c) {
  if (c < 0x80) return ascii_lower(c) ? c - 32 : c;
  static const Property any("(?s).");
  return any.mapped(c, "\\U$0");
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return ascii_upper(c) ? c + 32 : c;
  static const Property any("(?s).");
  return any.mapped(c, "\\L$0");
}

void append_upper(std::string& out, char32_t c) {
  if (const Expansion* expansion = expansion_of(c)) {
    out += expansion->upper;
  } else {
    append(out, to_upper(c));
  }
}

void append_title(std::string& out, char32_t c) {
  const Expansion* expansion = expansion_of(c);
  if (!expansion) return append(out, to_upper(c));
  // Only the first letter is a capital; U+02BC is none.
  bool first = true;
  for (const char unit : expansion->upper) {
    const bool letter = ascii_upper(char32_t(uint8_t(unit)));
    out += letter && !std::exchange(first, false) ? char(unit + 32) : unit;
  }
}

}  // namespace cera::text::jinja::unicode
