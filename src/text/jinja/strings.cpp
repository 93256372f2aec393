#include "text/jinja/strings.h"

#include <algorithm>

#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja::strings {
namespace {

constexpr size_t kNone = std::string_view::npos;
constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2, kDottedI = 0x130;

/// Rewrites every code point; write(out, c, at) appends what stands for c, which starts at byte
/// `at`.
template <class Write>
Value rewrite(Runtime& runtime, const String& string, bool markup, Write write) {
  const std::string& text = string.text.str();
  runtime.meter.step(string.ascii ? 1 : text.size());  // looking up a letter is a step's work
  TextBuilder out(runtime.meter);
  size_t at = 0;
  for (const SpanText::Run& run : string.text.runs()) {
    std::string piece;
    while (at < run.end) {
      const unicode::CodePoint c = unicode::decode(text, at);
      if (c.value == unicode::kInvalid) {
        piece += text[at];
      } else {
        write(piece, c.value, at);
      }
      at += c.n_bytes;
    }
    out.append(piece, run.origin);
  }
  return std::move(out).finish(markup);
}

void append_lower(std::string& out, char32_t c, std::string_view text, size_t at) {
  if (c == kCapitalSigma) {
    const bool after_letter =
        at > 0 && unicode::is_letter(unicode::decode(text, unicode::previous(text, at)).value);
    const bool before_letter =
        at + 2 < text.size() && unicode::is_letter(unicode::decode(text, at + 2).value);
    return unicode::append(out,
                           after_letter && !before_letter ? kFinalSigma : unicode::to_lower(c));
  }
  if (c == kDottedI) {
    out += "i\u0307";
  } else {
    unicode::append(out, unicode::to_lower(c));
  }
}

/// First capital, rest small; starts(previous) tells whether the next code point begins a word.
template <void (*append_capital)(std::string&, char32_t), class Starts>
Value capitalize_words(Runtime& runtime, const String& string, bool markup, Starts starts) {
  bool begin = true;
  return rewrite(runtime, string, markup, [&](std::string& out, char32_t c, size_t at) {
    if (begin) {
      append_capital(out, c);
    } else {
      append_lower(out, c, string.text.str(), at);
    }
    begin = starts(c);
  });
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const unicode::CodePoint c = unicode::decode(text, at);
    if (!unicode::is_space(c.value)) break;
    at += c.n_bytes;
  }
  return at;
}

size_t skip_word(std::string_view text, size_t at) {
  while (at < text.size()) {
    const unicode::CodePoint c = unicode::decode(text, at);
    if (unicode::is_space(c.value)) break;
    at += c.n_bytes;
  }
  return at;
}

/// The same from the right: the byte after which everything up to `end` is (or is not) whitespace.
size_t skip_back(std::string_view text, size_t end, bool space) {
  while (end > 0) {
    const size_t at = unicode::previous(text, end);
    if (unicode::is_space(unicode::decode(text, at).value) != space) break;
    end = at;
  }
  return end;
}

class Parts {
 public:
  Parts(Runtime& runtime, const String& string)
      : runtime_(runtime), string_(string), account_(&runtime.meter) {
    runtime.meter.work(string.text.size());
  }
  void add(size_t begin, size_t end) {
    account_.take(sizeof(Value));
    parts_.push_back(part(runtime_, string_, begin, end));
  }
  bool full(int64_t limit) const { return limit >= 0 && int64_t(parts_.size()) >= limit; }
  std::vector<Value> take() { return std::move(parts_); }
  std::vector<Value> take_reversed() {
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  Runtime& runtime_;
  const String& string_;
  Account account_;
  std::vector<Value> parts_;
};

void need_separator(const String& separator) {
  if (separator.text.empty()) raise("empty separator");
}

}  // namespace

Value part(Runtime& runtime, const String& text, size_t begin, size_t end) {
  TextBuilder out(runtime.meter);
  out.append(text.text, begin, end - begin);
  return std::move(out).finish(text.markup);
}

Value upper(Runtime& runtime, const String& text) {
  return rewrite(runtime, text, text.markup,
                 [](std::string& out, char32_t c, size_t) { unicode::append_upper(out, c); });
}

Value lower(Runtime& runtime, const String& text) {
  return rewrite(runtime, text, text.markup, [&](std::string& out, char32_t c, size_t at) {
    append_lower(out, c, text.text.str(), at);
  });
}

Value capitalize(Runtime& runtime, const String& text) {
  return capitalize_words<unicode::append_title>(runtime, text, text.markup,
                                                 [](char32_t) { return false; });
}

Value title(Runtime& runtime, const String& text) {
  return capitalize_words<unicode::append_title>(runtime, text, text.markup,
                                                 [](char32_t c) { return !unicode::is_cased(c); });
}

Value title_filter(Runtime& runtime, const String& text) {
  return capitalize_words<unicode::append_upper>(runtime, text, false, [](char32_t c) {
    return unicode::is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

Value swapcase(Runtime& runtime, const String& text) {
  return rewrite(runtime, text, text.markup, [&](std::string& out, char32_t c, size_t at) {
    if (unicode::is_lower(c)) {
      unicode::append_upper(out, c);
    } else {
      append_lower(out, c, text.text.str(), at);
    }
  });
}

Value strip(Runtime& runtime, const String& string, const String* chars, Side side) {
  const std::string_view text = string.text.str();
  runtime.meter.work(text.size());
  const auto removed = [&](size_t at, size_t n) {
    if (!chars) return unicode::is_space(unicode::decode(text, at).value);
    runtime.meter.work(chars->text.size());
    const std::string_view set = chars->text.str();
    for (size_t i = 0; i < set.size(); i += unicode::decode(set, i).n_bytes) {
      if (set.substr(i, unicode::decode(set, i).n_bytes) == text.substr(at, n)) return true;
    }
    return false;
  };
  size_t begin = 0, end = text.size();
  while (side != Side::right && begin < end) {
    const size_t n = unicode::decode(text, begin).n_bytes;
    if (!removed(begin, n)) break;
    begin += n;
  }
  while (side != Side::left && end > begin) {
    const size_t at = unicode::previous(text, end);
    if (!removed(at, end - at)) break;
    end = at;
  }
  return part(runtime, string, begin, end);
}

std::vector<Value> split(Runtime& runtime, const String& string, const String* separator,
                         int64_t limit) {
  const std::string& text = string.text.str();
  Parts parts(runtime, string);
  size_t at = 0;
  if (!separator) {
    for (at = skip_space(text, 0); at < text.size(); at = skip_space(text, at)) {
      if (parts.full(limit)) {
        parts.add(at, text.size());
        break;
      }
      const size_t end = skip_word(text, at);
      parts.add(at, end);
      at = end;
    }
    return parts.take();
  }
  need_separator(*separator);
  const Searcher searcher(separator->text.str());
  while (!parts.full(limit)) {
    const size_t found = searcher.find(text, at);
    if (found == kNone) break;
    parts.add(at, found);
    at = found + separator->text.size();
  }
  parts.add(at, text.size());
  return parts.take();
}

std::vector<Value> split_right(Runtime& runtime, const String& string, const String* separator,
                               int64_t limit) {
  if (limit < 0) return split(runtime, string, separator, limit);
  const std::string& text = string.text.str();
  Parts parts(runtime, string);
  size_t end = text.size();
  if (!separator) {
    for (end = skip_back(text, end, true); end > 0; end = skip_back(text, end, true)) {
      if (parts.full(limit)) {
        parts.add(0, end);
        break;
      }
      const size_t begin = skip_back(text, end, false);
      parts.add(begin, end);
      end = begin;
    }
    return parts.take_reversed();
  }
  need_separator(*separator);
  const Searcher searcher(separator->text.str());
  while (!parts.full(limit)) {
    runtime.meter.work(separator->text.size() < 32 ? 0
                                                   : end);  // a long needle is sought from the left
    const size_t found = searcher.find_last(text, end);
    if (found == kNone) break;
    parts.add(found + separator->text.size(), end);
    end = found;
  }
  parts.add(0, end);
  return parts.take_reversed();
}

std::vector<Value> split_lines(Runtime& runtime, const String& string, bool keep_ends) {
  const std::string& text = string.text.str();
  Parts parts(runtime, string);
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint c = unicode::decode(text, at);
    size_t next = at + c.n_bytes;
    if (unicode::is_line_break(c.value)) {
      if (c.value == '\r' && next < text.size() && text[next] == '\n') ++next;
      parts.add(begin, keep_ends ? next : at);
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) parts.add(begin, text.size());
  return parts.take();
}

std::vector<Value> partition(Runtime& runtime, const String& string, const String& separator,
                             bool from_right) {
  need_separator(separator);
  const std::string& text = string.text.str();
  runtime.meter.work(text.size());
  const Searcher searcher(separator.text.str());
  const size_t found = from_right ? searcher.find_last(text, text.size()) : searcher.find(text);
  const Value empty = part(runtime, string, 0, 0);
  const Value all = part(runtime, string, 0, text.size());
  if (found == kNone) {
    return from_right ? std::vector<Value>{empty, empty, all}
                      : std::vector<Value>{all, empty, empty};
  }
  const size_t after = found + separator.text.size();
  return {part(runtime, string, 0, found), part(runtime, separator, 0, separator.text.size()),
          part(runtime, string, after, text.size())};
}

Value replace(Runtime& runtime, const String& string, const String& from, const String& to,
              int64_t limit) {
  const std::string& text = string.text.str();
  TextBuilder out(runtime.meter);
  size_t at = 0;
  auto left = [limit, n = int64_t(0)]() mutable { return limit < 0 || n++ < limit; };
  if (from.text.empty()) {  // Python inserts before every code point and at the end
    while (left()) {
      out.append(to.text);
      if (at >= text.size()) break;
      const size_t n = unicode::decode(text, at).n_bytes;
      out.append(string.text, at, n);
      at += n;
    }
  } else {
    const Searcher searcher(from.text.str());
    while (left()) {
      const size_t found = searcher.find(text, at);
      if (found == kNone) break;
      out.append(string.text, at, found - at);
      out.append(to.text);
      at = found + from.text.size();
    }
  }
  if (at < text.size()) out.append(string.text, at, text.size() - at);
  return std::move(out).finish(string.markup);
}

Value join(Runtime& runtime, const String& separator, const std::vector<Value>& strings,
           bool markup) {
  TextBuilder out(runtime.meter);
  for (size_t i = 0; i < strings.size(); ++i) {
    if (i > 0) out.append(separator.text);
    out.append(strings[i].string().text);
  }
  return std::move(out).finish(markup);
}

Value pad(Runtime& runtime, const String& string, int64_t width, const SpanText& fill,
          Side text_side) {
  const size_t length = string.ascii ? string.text.size() : unicode::length(string.text.str());
  runtime.meter.work(string.text.size());
  const int64_t missing = width > int64_t(length) ? width - int64_t(length) : 0;
  int64_t before = 0;
  if (text_side == Side::right) before = missing;
  // CPython puts the odd blank to the left when the width is odd.
  if (text_side == Side::both) before = missing / 2 + (missing & width & 1);
  TextBuilder out(runtime.meter);
  for (int64_t i = 0; i < before; ++i) out.append(fill);
  out.append(string.text);
  for (int64_t i = before; i < missing; ++i) out.append(fill);
  return std::move(out).finish(string.markup);
}

}  // namespace cera::text::jinja::strings
