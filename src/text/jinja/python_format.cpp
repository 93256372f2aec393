// How Python prints values: str, repr, "..." % values, "...".format(values).

#include <charconv>
#include <cmath>

#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

constexpr int64_t kMaxWidth = 1'000'000;

void append_escaped_char(std::string& out, char32_t c) {
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const char* format = c < 0x100 ? "\\x{:02x}" : c < 0x10000 ? "\\u{:04x}" : "\\U{:08x}";
  out += fmt::format(fmt::runtime(format), uint32_t(c));
}

void append_repr_text(Meter& meter, TextBuilder& out, const String& string) {
  const std::string& text = string.text.str();
  meter.step(string.ascii ? 1 : text.size());  // looking up whether to escape is a step's work
  const bool single = text.find('\'') == std::string::npos || text.find('"') != std::string::npos;
  const std::string_view quote = single ? "'" : "\"";
  if (string.markup) out.append("Markup(");
  out.append(quote);
  size_t plain = 0;  // start of what is copied as it is
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint c = unicode::decode(text, at);
    std::string escape;
    if (c.value == '\\' || (c.value < 0x80 && char(c.value) == quote[0])) {
      escape = {'\\', char(c.value)};
    } else if (c.value < unicode::kInvalid && !unicode::is_printable(c.value)) {
      append_escaped_char(escape, c.value);
    }
    if (!escape.empty()) {
      out.append(string.text, plain, at - plain);
      out.append(escape, string.text.origin_at(at));
      plain = at + c.n_bytes;
    }
    at += c.n_bytes;
  }
  out.append(string.text, plain, text.size() - plain);
  out.append(quote);
  if (string.markup) out.append(")");
}

void append_repr_sequence(Runtime& runtime, TextBuilder& out, const Sequence& sequence,
                          uint32_t depth) {
  constexpr std::string_view kOpen[] = {
      "[", "(", "(", "range(", "dict_keys([", "dict_values([", "dict_items(["};
  constexpr std::string_view kClose[] = {"]", ")", ")", ")", "])", "])", "])"};
  const auto flavor = size_t(sequence.flavor);
  const auto& items = sequence.items;
  out.append(kOpen[flavor]);
  if (sequence.flavor == Sequence::Flavor::range) {
    const int64_t first = items.empty() ? 0 : items[0].as_integer();
    const int64_t step = items.size() < 2 ? 1 : items[1].as_integer() - first;
    out.append(fmt::format("{}, {}", first, first + step * int64_t(items.size())));
    if (step != 1) out.append(fmt::format(", {}", step));
  } else {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(", ");
      runtime.append_repr(out, items[i], depth + 1);
    }
    if (sequence.flavor == Sequence::Flavor::tuple && items.size() == 1) out.append(",");
  }
  out.append(kClose[flavor]);
}

/// One conversion of either mini-language.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ = or by type
  char sign = '-';
  bool alternate = false;
  bool grouped = false;
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = 0;
  bool plain = true;                      // nothing was asked for
  Origin origin = Origin::template_text;  // of the format string around it, and so of the padding
};

int64_t read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > kMaxWidth) raise("a format width above {} is not supported", kMaxWidth);
  }
  return value;
}

void append_padded(TextBuilder& out, const Spec& spec, const SpanText& body, char default_align) {
  const auto length = int64_t(unicode::length(body.str()));
  const int64_t missing = std::max<int64_t>(spec.width - length, 0);
  const char align = spec.align ? spec.align : default_align;
  const int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  // '=' puts the padding between the sign and the digits.
  const std::string& text = body.str();
  const size_t head =
      align == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
  out.append(body, 0, head);
  for (int64_t i = 0; i < before; ++i) out.append(spec.fill, spec.origin);
  out.append(body, head, text.size() - head);
  for (int64_t i = before; i < missing; ++i) out.append(spec.fill, spec.origin);
}

void append_text(TextBuilder& out, const Spec& spec, const SpanText& text) {
  const size_t size =
      spec.precision ? unicode::byte_of(text.str(), size_t(*spec.precision)) : text.size();
  append_padded(out, spec, text.substr(0, size), '<');
}

/// Thousands separators in the leading run of digits.
std::string grouped(std::string digits) {
  size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

void append_signed(TextBuilder& out, const Spec& spec, bool negative, std::string digits) {
  if (spec.grouped) digits = grouped(std::move(digits));
  if (negative || spec.sign != '-') digits.insert(digits.begin(), negative ? '-' : spec.sign);
  append_padded(out, spec, SpanText(std::move(digits), Origin::template_text), '>');
}

void append_integer(TextBuilder& out, const Spec& spec, int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - uint64_t(value) : uint64_t(value);
  std::string digits;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude);
      break;
    case 'X':
      digits = fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude);
      break;
    case 'o':
      digits = fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude);
      break;
    case 'b':
      digits = fmt::format("{}{:b}", spec.alternate ? "0b" : "", magnitude);
      break;
    default:
      digits = fmt::format("{}", magnitude);
      break;
  }
  if (spec.precision)
    digits.insert(0, size_t(std::max<int64_t>(*spec.precision - int64_t(digits.size()), 0)), '0');
  append_signed(out, spec, value < 0, std::move(digits));
}

void append_real(TextBuilder& out, const Spec& spec, double value) {
  const double magnitude = std::fabs(value);
  const int precision = int(spec.precision.value_or(6));
  std::string digits;
  switch (spec.type) {
    case 'f':
    case 'F':
      digits = fmt::format("{:.{}f}", magnitude, precision);
      break;
    case 'e':
      digits = fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'E':
      digits = fmt::format("{:.{}E}", magnitude, precision);
      break;
    case 'g':
      digits = fmt::format("{:.{}g}", magnitude, precision);
      break;
    case 'G':
      digits = fmt::format("{:.{}G}", magnitude, precision);
      break;
    case '%':
      digits = fmt::format("{:.{}f}%", magnitude * 100, precision);
      break;
    default:
      digits =
          spec.precision ? fmt::format("{:.{}g}", magnitude, precision) : float_repr(magnitude);
  }
  append_signed(out, spec, std::signbit(value) && !std::isnan(value), std::move(digits));
}

[[noreturn]] void wrong_type(const Spec& spec, const Value& value) {
  if (value.is_undefined()) raise("{}", value.undefined_message());
  raise("format code '{}' does not fit '{}'", spec.type ? spec.type : 's', type_name(value));
}

bool one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

/// A value by the rules of format(value, spec).
void append_formatted(Runtime& runtime, TextBuilder& out, const Spec& spec, const Value& value) {
  const bool integer_type = spec.type != 0 && one_of(spec.type, "dxXobcn");
  const bool real_type = spec.type != 0 && one_of(spec.type, "fFeEgG%");
  if (value.is_integer() && !(value.is_boolean() && spec.plain)) {
    if (real_type) return append_real(out, spec, value.as_real());
    if (spec.type != 0 && (!integer_type || spec.type == 'c')) wrong_type(spec, value);
    if (spec.precision) raise("precision is not allowed for an int");
    return append_integer(out, spec, value.as_integer());
  }
  if (value.is_real()) {
    if (integer_type || spec.type == 's') wrong_type(spec, value);
    return append_real(out, spec, value.as_real());
  }
  if (spec.type != 0 && spec.type != 's') wrong_type(spec, value);
  if (!spec.plain && !value.is_string() && !value.is_number()) {
    raise("a format specification does not fit '{}'", type_name(value));
  }
  append_text(out, spec, runtime.to_text(value));
}

Spec read_brace_spec(std::string_view text) {
  Spec spec;
  spec.plain = text.empty();
  size_t at = 0;
  const auto is_align = [&](size_t i) { return i < text.size() && one_of(text[i], "<>^="); };
  const size_t first = text.empty() ? 0 : unicode::decode(text, 0).n_bytes;
  if (first > 0 && is_align(first)) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (is_align(0)) {
    spec.align = text[at++];
  }
  if (at < text.size() && one_of(text[at], "+- ")) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = true, ++at;
  if (at < text.size() && text[at] == '0') {
    ++at;
    if (!spec.align) spec.fill = "0", spec.align = '=';
  }
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == ',') spec.grouped = true, ++at;
  if (at < text.size() && text[at] == '.') {
    const size_t digits = ++at;
    spec.precision = read_number(text, at);
    if (at == digits) raise("format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size() || (spec.type != 0 && !one_of(spec.type, "bdoxXneEfFgG%sc"))) {
    raise("invalid format specifier '{}'", text);
  }
  return spec;
}

/// Walks "...{field!r:spec}..." and asks for one field after the other.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const String& format, const Arguments& arguments)
      : runtime_(runtime), format_(format.text), text_(format.text.str()), arguments_(arguments) {}

  Value run(bool markup) {
    TextBuilder out(runtime_.meter);
    for (size_t at = 0; at < text_.size();) {
      const size_t brace = std::min(text_.find_first_of("{}", at), text_.size());
      out.append(format_, at, brace - at);
      if (brace == text_.size()) break;
      if (brace + 1 < text_.size() && text_[brace + 1] == text_[brace]) {
        out.append(format_, brace, 1);
        at = brace + 2;
        continue;
      }
      if (text_[brace] == '}') raise("single '}}' encountered in a format string");
      const size_t end = text_.find('}', brace);
      if (end == std::string::npos) raise("single '{{' encountered in a format string");
      append_field(out, std::string_view(text_).substr(brace + 1, end - brace - 1),
                   origin(brace, end), markup);
      at = end + 1;
    }
    return std::move(out).finish(markup);
  }

 private:
  /// Content if any byte from begin to end is.
  Origin origin(size_t begin, size_t end) const {
    for (size_t i = begin; i <= end; ++i) {
      if (format_.origin_at(i) == Origin::content) return Origin::content;
    }
    return Origin::template_text;
  }

  void append_field(TextBuilder& out, std::string_view field, Origin origin, bool markup) {
    if (field.find('{') != std::string_view::npos) raise("nested format fields are not supported");
    const size_t colon = std::min(field.find(':'), field.size());
    Spec spec = read_brace_spec(field.substr(std::min(colon + 1, field.size())));
    spec.origin = origin;
    field = field.substr(0, colon);
    char conversion = 0;
    if (const size_t mark = field.find('!'); mark != std::string_view::npos) {
      if (mark + 2 != field.size() || !one_of(field[mark + 1], "rs"))
        raise("unknown format conversion");
      conversion = field[mark + 1];
      field = field.substr(0, mark);
    }
    Value value = lookup(field);
    if (conversion == 's') value = runtime_.to_string(value);
    if (conversion == 'r') {
      TextBuilder shown(runtime_.meter);
      runtime_.append_repr(shown, value);
      value = std::move(shown).finish();
    }
    TextBuilder part(runtime_.meter);
    append_formatted(runtime_, part, spec, value);
    const bool escape = markup && !(value.is_string() && value.string().markup);
    const Value done = std::move(part).finish();
    out.append(escape ? runtime_.escaped(done).string().text : done.string().text);
  }

  Value lookup(std::string_view field) {
    const size_t end = std::min(field.find_first_of(".["), field.size());
    Value value = argument(field.substr(0, end));
    for (std::string_view rest = field.substr(end); !rest.empty();) {
      if (rest[0] == '.') {
        const size_t stop = std::min(rest.find_first_of(".[", 1), rest.size());
        value = runtime_.attribute(value, rest.substr(1, stop - 1));
        rest.remove_prefix(stop);
      } else {
        const size_t stop = rest.find(']');
        if (rest[0] != '[' || stop == std::string_view::npos)
          raise("malformed format field '{}'", field);
        value = runtime_.item(value, key(rest.substr(1, stop - 1)));
        rest.remove_prefix(stop + 1);
      }
    }
    return value;
  }

  Value key(std::string_view text) {
    size_t at = 0;
    const int64_t number = read_number(text, at);
    return at == text.size() && at > 0 ? Value::integer(number) : runtime_.text(text);
  }

  Value argument(std::string_view name) {
    size_t at = 0;
    const int64_t number = read_number(name, at);
    if (at == name.size()) {
      const auto index = name.empty() ? next_++ : size_t(number);
      if (index >= arguments_.positional.size())
        raise("no argument {} for the format string", index);
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.keywords) {
      if (key == name) return value;
    }
    raise("no argument '{}' for the format string", name);
  }

  Runtime& runtime_;
  const SpanText& format_;
  const std::string& text_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

/// Walks "...%(key)-5.2f...".
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const String& format, const Value& arguments)
      : runtime_(runtime), format_(format), text_(format.text.str()), arguments_(arguments) {
    const Sequence* sequence = arguments.sequence();
    tuple_ = sequence && sequence->flavor == Sequence::Flavor::tuple ? sequence : nullptr;
  }

  Value run() {
    TextBuilder out(runtime_.meter);
    for (size_t at = 0; at < text_.size();) {
      const size_t percent = std::min(text_.find('%', at), text_.size());
      out.append(format_.text, at, percent - at);
      if (percent == text_.size()) break;
      at = percent + 1;
      append_conversion(out, at);
    }
    // Python takes anything with [] but a tuple or str for a mapping, which need not be used up.
    const bool mapping = arguments_.is_dict() || arguments_.sequence() || arguments_.is_undefined();
    const bool all_used = tuple_ ? next_ == tuple_->items.size() : next_ == 1 || mapping;
    if (!all_used) raise("not all arguments converted during string formatting");
    return std::move(out).finish(format_.markup);
  }

 private:
  void append_conversion(TextBuilder& out, size_t& at) {
    std::optional<Value> keyed;
    if (at < text_.size() && text_[at] == '(') {
      const size_t end = text_.find(')', at);
      if (end == std::string::npos) raise("incomplete format key");
      if (!arguments_.is_dict()) raise("format requires a mapping");
      const std::string name = text_.substr(at + 1, end - at - 1);
      const Value* value = arguments_.dict().find(name);
      if (!value) raise("no argument '{}' for the format string", name);
      keyed = *value;
      at = end + 1;
    }
    Spec spec;
    spec.origin = format_.text.origin_at(at - 1);
    bool zero = false;
    for (; at < text_.size() && one_of(text_[at], "-+ #0"); ++at) {
      if (text_[at] == '-') spec.align = '<';
      if (text_[at] == '#') spec.alternate = true;
      if (text_[at] == '0') zero = true;
      if (text_[at] == '+' || (text_[at] == ' ' && spec.sign != '+')) spec.sign = text_[at];
    }
    if (at < text_.size() && text_[at] == '*') raise("'*' in a format is not supported");
    spec.width = read_number(text_, at);
    if (at < text_.size() && text_[at] == '.') spec.precision = read_number(text_, ++at);
    if (at == text_.size()) raise("incomplete format");
    spec.type = text_[at++];
    if (spec.type == '%') return out.append("%", spec.origin);
    const Value value = keyed ? *keyed : next();
    if (zero && !spec.align && value.is_number()) spec.fill = "0", spec.align = '=';
    if (!spec.align) spec.align = '>';
    append(out, spec, value);
  }

  Value next() {
    if (tuple_ ? next_ >= tuple_->items.size() : next_ > 0)
      raise("not enough arguments for format string");
    const size_t i = next_++;
    return tuple_ ? tuple_->items[i] : arguments_;
  }

  void append(TextBuilder& out, Spec spec, const Value& value) {
    if (one_of(spec.type, "sra")) {
      TextBuilder text(runtime_.meter);
      if (spec.type == 's')
        runtime_.append_str(text, value);
      else
        runtime_.append_repr(text, value);
      Value shown = std::move(text).finish(value.is_string() && value.string().markup);
      if (format_.markup) shown = runtime_.escaped(shown);
      return append_text(out, spec, shown.string().text);
    }
    if (!value.is_number() || !one_of(spec.type, "diuxXofFeEgG")) wrong_type(spec, value);
    if (one_of(spec.type, "fFeEgG")) return append_real(out, spec, value.as_real());
    if (value.is_real() && one_of(spec.type, "diu")) {
      if (!(std::fabs(value.as_real()) < 0x1p63)) raise("the number does not fit in 64 bits");
      return append_integer(out, spec, int64_t(value.as_real()));
    }
    if (!value.is_integer()) wrong_type(spec, value);
    append_integer(out, spec, value.as_integer());
  }

  Runtime& runtime_;
  const String& format_;
  const std::string& text_;
  const Value& arguments_;
  const Sequence* tuple_;
  size_t next_ = 0;
};

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  char* const end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, size_t(end - buffer));  // -d.ddde+XX
  const size_t mark = shortest.find('e');
  int exponent = 0;
  std::from_chars(buffer + mark + 2, end, exponent);
  if (buffer[mark + 1] == '-') exponent = -exponent;
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  std::string digits;
  for (char c : shortest.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0) {
    digits = "0." + std::string(size_t(-exponent - 1), '0') + digits;
  } else {
    const auto point = size_t(exponent) + 1;
    if (digits.size() <= point) digits.append(point + 1 - digits.size(), '0');
    digits.insert(point, ".");
  }
  return std::signbit(value) ? "-" + digits : digits;
}

void Runtime::append_str(TextBuilder& out, const Value& value) {
  if (value.is_string()) {
    out.append(value.string().text);
  } else if (!value.is_undefined()) {
    append_repr(out, value);
  }
}

void Runtime::append_repr(TextBuilder& out, const Value& value, uint32_t depth) {
  check_depth(depth);
  switch (value.kind()) {
    case Value::Kind::undefined:
      return out.append("Undefined");
    case Value::Kind::none:
      return out.append("None");
    case Value::Kind::boolean:
      return out.append(value.as_boolean() ? "True" : "False");
    case Value::Kind::integer:
      return out.append(fmt::to_string(value.as_integer()));
    case Value::Kind::big_integer:
      return out.append(fmt::to_string(value.as_big_integer()));
    case Value::Kind::real:
      return out.append(float_repr(value.as_real()));
    case Value::Kind::string:
      return append_repr_text(meter, out, value.string());
    case Value::Kind::sequence:
      return append_repr_sequence(*this, out, *value.sequence(), depth);
    case Value::Kind::object: {
      // It may show anything that it holds, so it counts as content.
      return out.append(value.object()->repr(*this, depth), Origin::content);
    }
    case Value::Kind::dict:
      break;
  }
  std::string_view separator = "{";
  for (const auto& [key, item] : value.dict().entries) {
    out.append(separator);
    append_repr(out, key, depth + 1);
    out.append(": ");
    append_repr(out, item, depth + 1);
    separator = ", ";
  }
  out.append(value.dict().entries.empty() ? "{}" : "}");
}

Value Runtime::to_string(const Value& value) {
  if (value.is_string()) return value;
  TextBuilder out(meter);
  append_str(out, value);
  return std::move(out).finish();
}

SpanText Runtime::to_text(const Value& value) {
  return to_string(value).string().text;
}

Value Runtime::escaped(const Value& value) {
  const Value plain = to_string(value);
  if (plain.string().markup) return plain;
  const SpanText& text = plain.string().text;
  TextBuilder out(meter);
  for (size_t at = 0; at < text.size();) {
    const size_t special = std::min(text.str().find_first_of("&<>'\"", at), text.size());
    out.append(text, at, special - at);
    if (special == text.size()) break;
    const char c = text.str()[special];
    const char* entity = c == '&'   ? "&amp;"
                         : c == '<' ? "&lt;"
                         : c == '>' ? "&gt;"
                         : c == '"' ? "&#34;"
                                    : "&#39;";
    out.append(entity, text.origin_at(special));
    at = special + 1;
  }
  return std::move(out).finish(true);
}

Value Runtime::percent_format(const Value& format, const Value& arguments) {
  return PercentFormatter(*this, format.string(), arguments).run();
}

Value Runtime::brace_format(const Value& format, const Arguments& arguments) {
  return BraceFormatter(*this, format.string(), arguments).run(format.string().markup);
}

}  // namespace cera::text::jinja
