#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

/// "\r\n" and "\r" become "\n"; one newline at the end goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      if (tag == kNone) {
        add_data(source_.substr(at_));
        at_ = source_.size();
        break;
      }
      lex_tag(tag);
    }
    add(Token::Type::end, source_.size());
    return std::move(tokens_);
  }

 private:
  char peek(size_t offset = 0) const {
    return at_ + offset < source_.size() ? source_[at_ + offset] : '\0';
  }
  bool looking_at(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }

  size_t next_tag() const {
    for (size_t i = source_.find('{', at_); i != kNone && i + 1 < source_.size();
         i = source_.find('{', i + 1)) {
      const char c = source_[i + 1];
      if (c == '{' || c == '%' || c == '#') return i;
    }
    return kNone;
  }

  size_t skip_space(size_t i) const {
    while (i < source_.size()) {
      const unicode::CodePoint c = unicode::decode(source_, i);
      if (!unicode::is_space(c.value)) break;
      i += c.n_bytes;
    }
    return i;
  }

  /// Positions are asked for in rising order.
  Position position(size_t byte) {
    for (; located_ < byte; located_ += unicode::decode(source_, located_).n_bytes) {
      if (source_[located_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
    }
    return place_;
  }

  Token& add(Token::Type type, size_t byte, std::string text = {}) {
    Token token;
    token.type = type;
    token.at = position(byte);
    token.text = std::move(text);
    return tokens_.emplace_back(std::move(token));
  }

  void add_data(std::string text) {
    if (!text.empty()) add(Token::Type::data, at_, std::move(text));
  }

  /// The text before a tag, as the tag's whitespace control leaves it.
  void add_text_before(size_t tag, char sign, bool strips_indentation) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      while (!text.empty()) {
        const size_t last = unicode::previous(text, text.size());
        if (!unicode::is_space(unicode::decode(text, last).value)) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && strips_indentation) {
      const size_t line = text.rfind('\n') + 1;  // 0 when there is no newline
      const bool at_line_start = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (at_line_start && skip_space(at_ + line) >= tag) text = text.substr(0, line);
    }
    add_data(std::string(text));
  }

  void lex_tag(size_t tag) {
    const char kind = source_[tag + 1];
    const char next = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char sign = next == '-' || next == '+' ? next : '\0';
    add_text_before(tag, sign, kind != '{');
    at_ = tag + 2 + (sign != '\0');
    if (kind == '#') return skip_comment(tag);
    if (kind == '%' && lex_raw(tag)) return;
    const bool block = kind == '%';
    add(block ? Token::Type::block_begin : Token::Type::print_begin, tag);
    lex_code(block);
  }

  void skip_comment(size_t tag) {
    const size_t end = source_.find("#}", at_);
    if (end == kNone) raise_at(position(tag), "the comment is not closed");
    finish_tag(end > at_ ? source_[end - 1] : '\0', end + 2, true);
  }

  /// Moves behind a tag's end; trim_blocks eats one newline behind blocks and comments.
  void finish_tag(char sign, size_t end, bool trims) {
    at_ = end;
    if (sign == '-') {
      at_ = skip_space(end);
    } else if (sign != '+' && trims && peek() == '\n') {
      ++at_;
    }
  }

  /// Matches `word` and the end of a block tag from byte i on; returns the sign and the end.
  struct TagEnd {
    char sign;
    size_t end;
  };
  std::optional<TagEnd> match_block(size_t i, std::string_view word) const {
    i = skip_space(i);
    if (!std::string_view(source_).substr(i).starts_with(word)) return {};
    i = skip_space(i + word.size());
    const char sign =
        i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : '\0';
    i += sign != '\0';
    if (!std::string_view(source_).substr(i).starts_with("%}")) return {};
    return TagEnd{sign, i + 2};
  }

  bool lex_raw(size_t tag) {
    const std::optional<TagEnd> begin = match_block(at_, "raw");
    if (!begin || begin->sign == '+') return false;
    finish_tag(begin->sign, begin->end, false);
    for (size_t i = source_.find("{%", at_); i != kNone; i = source_.find("{%", i + 2)) {
      const char next = i + 2 < source_.size() ? source_[i + 2] : '\0';
      const char sign = next == '-' || next == '+' ? next : '\0';
      const std::optional<TagEnd> end = match_block(i + 2 + (sign != '\0'), "endraw");
      if (!end) continue;
      add_text_before(i, sign, true);
      finish_tag(end->sign, end->end, true);
      return true;
    }
    raise_at(position(tag), "the raw block is not closed");
  }

  void lex_code(bool block) {
    std::string open;  // the closing brackets that are due
    while (at_ < source_.size()) {
      if (open.empty() && lex_end(block)) return;
      const unicode::CodePoint c = unicode::decode(source_, at_);
      if (unicode::is_space(c.value)) {
        at_ += c.n_bytes;
      } else if (c.value < 0x80 && is_digit(char(c.value))) {
        lex_number();
      } else if (unicode::is_word(c.value)) {
        lex_name();
      } else if (c.value == '\'' || c.value == '"') {
        lex_string();
      } else {
        lex_symbol(open);
      }
    }
  }

  bool lex_end(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    const char sign = peek() == '-' || (block && peek() == '+') ? peek() : '\0';
    const size_t begin = at_ + (sign != '\0');
    if (!std::string_view(source_).substr(begin).starts_with(close)) return false;
    add(block ? Token::Type::block_end : Token::Type::print_end, at_);
    finish_tag(sign, begin + 2, block);
    return true;
  }

  void lex_name() {
    const size_t begin = at_;
    if (unicode::is_numeric(unicode::decode(source_, at_).value)) {
      raise_at(position(begin), "invalid character in an identifier");
    }
    while (at_ < source_.size()) {
      const unicode::CodePoint c = unicode::decode(source_, at_);
      if (!unicode::is_word(c.value)) break;
      at_ += c.n_bytes;
    }
    add(Token::Type::name, begin, source_.substr(begin, at_ - begin));
  }

  /// Digits with single underscores between them, appended without these.
  template <class Allowed>
  void take_digits(std::string& out, Allowed allowed) {
    while (allowed(peek()) || (!out.empty() && peek() == '_' && allowed(peek(1)))) {
      if (peek() != '_') out += peek();
      ++at_;
    }
  }

  void lex_number() {
    const size_t begin = at_;
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    std::string digits;
    take_digits(digits, is_digit);
    std::string real = digits;
    if (!after_dot && peek() == '.' && is_digit(peek(1))) {
      real += '.';
      ++at_;
      take_digits(real, is_digit);
    }
    const bool exponent =
        (peek() | 0x20) == 'e' && is_digit(peek(1 + (peek(1) == '+' || peek(1) == '-')));
    if (!after_dot && exponent) {
      real += 'e';
      ++at_;
      if (peek() == '-') real += '-';
      if (peek() == '-' || peek() == '+') ++at_;
      take_digits(real, is_digit);
    }
    if (real.size() == digits.size()) {
      at_ = begin;
      return lex_integer();
    }
    Token& token = add(Token::Type::real, begin, real);
    const auto [end, error] = std::from_chars(real.data(), real.data() + real.size(), token.real);
    if (error != std::errc()) raise_at(token.at, "the number does not fit in a double");
  }

  void lex_integer() {
    const size_t begin = at_;
    std::string digits;
    int base = 10;
    for (const auto& [letter, of] : {std::pair{'x', 16}, {'o', 8}, {'b', 2}}) {
      const auto allowed = [&, n = of](char c) {
        const int value = is_digit(c)                              ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                   : 99;
        return value < n;
      };
      if (peek() != '0' || (peek(1) | 0x20) != letter || !allowed(peek(2))) continue;
      at_ += 2;
      base = of;
      take_digits(digits, allowed);
      break;
    }
    if (base == 10 && peek() == '0') take_digits(digits, [](char c) { return c == '0'; });
    if (base == 10 && digits.empty()) take_digits(digits, is_digit);
    Token& token = add(Token::Type::integer, begin, digits);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (error != std::errc()) raise_at(token.at, "the integer does not fit in 64 bits");
  }

  void lex_string() {
    const size_t begin = at_;
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) raise_at(position(begin), "the string is not closed");
    add(Token::Type::string, begin);
    tokens_.back().text =
        unescaped(std::string_view(source_).substr(begin + 1, end - begin - 1), tokens_.back().at);
    at_ = end + 1;
  }

  /// Python's escapes in string literals; unknown ones stay as they are.
  static std::string unescaped(std::string_view text, Position at) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t letter = kLetters.find(c); letter != kNone) {
        out += kMeanings[letter];
      } else if (c >= '0' && c <= '7') {
        size_t n = 1;
        while (n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7') ++n;
        append_code(out, text.substr(i, n), n, 8, at);
        i += n - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code(out, text.substr(i + 1, n), n, 16, at);
        i += n;
      } else if (c == 'N') {
        raise_at(at, "\\N escapes are not supported");
      } else if (c != '\n') {
        (out += '\\') += c;
      }
    }
    return out;
  }

  static void append_code(std::string& out, std::string_view digits, size_t n, int base,
                          Position at) {
    uint32_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const bool whole =
        error == std::errc() && digits.size() == n && end == digits.data() + digits.size();
    if (!whole || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      raise_at(at, "a string has a malformed escape");
    }
    unicode::append(out, value);
  }

  void lex_symbol(std::string& open) {
    constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                             "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                             ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                      [&](std::string_view s) { return looking_at(s); });
    if (symbol == std::end(kSymbols)) {
      const size_t n = unicode::decode(source_, at_).n_bytes;
      raise_at(position(at_), "unexpected character '{}'", source_.substr(at_, n));
    }
    const char c = (*symbol)[0];
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) raise_at(position(at_), "unexpected '{}'", c);
      if (open.back() != c)
        raise_at(position(at_), "unexpected '{}', expected '{}'", c, open.back());
      open.pop_back();
    }
    add(Token::Type::symbol, at_, std::string(*symbol));
    at_ += symbol->size();
  }

  std::string source_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
  size_t located_ = 0;  // byte that place_ stands for
  Position place_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(normalized(source)).run();
}

}  // namespace cera::text::jinja
