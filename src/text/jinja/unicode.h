#pragma once
// The little Unicode that Python's str methods need. Text is UTF-8; a byte that is not part of a
// valid sequence counts as one code point of its own and passes through every function unchanged.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cera::text::jinja::unicode {

constexpr char32_t kInvalid = 0x110000;  // above every code point

struct CodePoint {
  char32_t value;  // kInvalid for a stray byte
  uint8_t n_bytes;
};

/// The code point that starts at byte `at` < text.size().
CodePoint decode(std::string_view text, size_t at);
/// `value` must be a Unicode scalar value.
void append(std::string& out, char32_t value);

bool is_ascii(std::string_view text);
/// Number of code points.
size_t length(std::string_view text);
/// The byte where code point number n starts, or text.size().
size_t byte_of(std::string_view text, size_t n);
/// Where the code point that ends right before byte `end` > 0 starts.
size_t previous(std::string_view text, size_t end);

bool is_space(char32_t c);       // str.isspace, what strip() and split() remove
bool is_line_break(char32_t c);  // str.splitlines
bool is_letter(char32_t c);      // general category L*
bool is_decimal(char32_t c);     // Nd
bool is_digit(char32_t c);       // Nd, superscripts and circled digits
bool is_numeric(char32_t c);     // N*
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_word(char32_t c);       // \w of Python's re
bool is_printable(char32_t c);  // str.isprintable: what repr() leaves alone
inline bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c);
}

/// Simple (one to one) case mapping.
char32_t to_upper(char32_t c);
char32_t to_lower(char32_t c);
/// Full upper case for the letters that become several, otherwise the simple one.
void append_upper(std::string& out, char32_t c);
/// The same at the start of a word: "Ss" where upper case is "SS".
void append_title(std::string& out, char32_t c);

}  // namespace cera::text::jinja::unicode
