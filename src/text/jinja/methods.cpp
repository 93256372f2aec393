// Methods of str, list, tuple, range and dict. Those that would change their object are known, but
// forbidden, as in Jinja's immutable sandbox.

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/search.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

const String& self(const Bound& args) {
  return args.subject().string();
}

/// The argument as separator or set of characters; null when it is none or left out.
const String* text_or_null(const Bound& args, size_t i) {
  return args.given(i) ? &args.string(i) : nullptr;
}

/// An argument that markup has escaped before it lets it in.
Value admitted(Runtime& runtime, const Bound& args, size_t i) {
  args.string(i);
  return self(args).markup ? runtime.escaped(args.at(i)) : args.at(i);
}

template <Value (*operation)(Runtime&, const String&)>
Value text_method(Runtime& runtime, const Bound& args) {
  return operation(runtime, self(args));
}

template <strings::Side side>
Value strip(Runtime& runtime, const Bound& args) {  // | chars
  return strings::strip(runtime, self(args), text_or_null(args, 1), side);
}

template <std::vector<Value> (*operation)(Runtime&, const String&, const String*, int64_t)>
Value split(Runtime& runtime, const Bound& args) {  // | sep maxsplit
  return runtime.list(operation(runtime, self(args), text_or_null(args, 1), args.integer(2, -1)));
}

Value split_lines(Runtime& runtime, const Bound& args) {  // | keepends
  return runtime.list(strings::split_lines(runtime, self(args), args.flag(1)));
}

template <bool from_right>
Value partition(Runtime& runtime, const Bound& args) {  // sep
  return runtime.tuple(strings::partition(runtime, self(args), args.string(1), from_right));
}

Value replace(Runtime& runtime, const Bound& args) {  // old new | count
  const Value to = admitted(runtime, args, 2);
  return strings::replace(runtime, self(args), args.string(1), to.string(), args.integer(3, -1));
}

Value join(Runtime& runtime, const Bound& args) {  // iterable
  std::vector<Value> items = runtime.items(args.at(1));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      raise("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
    if (self(args).markup) items[i] = runtime.escaped(items[i]);
  }
  return strings::join(runtime, self(args), items, self(args).markup);
}

Value format(Runtime& runtime, const Bound& args) {
  return runtime.brace_format(args.subject(), args.raw());
}

template <strings::Side text_side>
Value pad(Runtime& runtime, const Bound& args) {  // width | fillchar
  SpanText fill(" ", Origin::template_text);
  if (args.find(2)) {
    if (runtime.length(args.at(2)) != 1)
      raise("the fill character must be exactly one character long");
    fill = admitted(runtime, args, 2).string().text;
  }
  return strings::pad(runtime, self(args), args.integer(1), fill, text_side);
}

Value zero_fill(Runtime& runtime, const Bound& args) {  // width
  const SpanText zero("0", Origin::template_text);
  const std::string& text = self(args).text.str();
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  const Value digits = strings::part(runtime, self(args), sign, text.size());
  const Value padded = strings::pad(runtime, digits.string(), args.integer(1) - int64_t(sign), zero,
                                    strings::Side::right);
  return runtime.binary(BinaryOp::add, strings::part(runtime, self(args), 0, sign), padded);
}

// ---- looking for text ----

/// The part of the subject that arguments i (start) and i + 1 (end) leave, in code points of the
/// subject.
struct Window {
  Value text;
  int64_t start = 0;
  bool reversed = false;  // start lies behind the end: not even the empty string is in there
};

Window window(Runtime& runtime, const Bound& args, size_t i) {
  if (!args.given(i) && !args.given(i + 1)) return {args.subject(), 0, false};
  const auto length = int64_t(runtime.length(args.subject()));
  const auto bound = [&](size_t argument, int64_t otherwise) {
    if (!args.given(argument)) return otherwise;
    const int64_t value = args.integer(argument);
    return std::max<int64_t>(value < 0 ? value + length : value, 0);
  };
  const int64_t start = bound(i, 0), end = std::min(bound(i + 1, length), length);
  if (start > end) return {runtime.text(""), start, true};
  return {runtime.slice(args.subject(), Value::integer(start), Value::integer(end), Value::none()),
          start, false};
}

/// In code points; -1 when it is not there.
int64_t position(Runtime& runtime, const Bound& args, bool from_right) {  // sub | start end
  const String& needle = args.string(1);
  const Window where = window(runtime, args, 2);
  if (where.reversed) return -1;
  const std::string& text = where.text.str();
  runtime.meter.work(text.size() + needle.text.size());
  size_t found = from_right ? text.size() : 0;
  if (!needle.text.empty()) {
    const Searcher searcher(needle.text.str());
    found = from_right ? searcher.find_last(text, text.size()) : searcher.find(text);
  }
  if (found == kNone) return -1;
  return where.start + int64_t(unicode::length(std::string_view(text).substr(0, found)));
}

template <bool from_right, bool must>
Value find(Runtime& runtime, const Bound& args) {
  const int64_t found = position(runtime, args, from_right);
  if (must && found < 0) raise("substring not found");
  return Value::integer(found);
}

Value count(Runtime& runtime, const Bound& args) {  // sub | start end
  const String& needle = args.string(1);
  const Window where = window(runtime, args, 2);
  if (where.reversed) return Value::integer(0);
  const std::string& text = where.text.str();
  runtime.meter.work(text.size() + needle.text.size());
  if (needle.text.empty()) return Value::integer(int64_t(unicode::length(text)) + 1);
  const Searcher searcher(needle.text.str());
  int64_t n = 0;
  for (size_t at = searcher.find(text); at != kNone;
       at = searcher.find(text, at + needle.text.size()))
    ++n;
  return Value::integer(n);
}

bool has_affix(const std::string& text, const Value& affix, bool at_end, std::string_view method) {
  if (affix.is_undefined()) raise("{}", affix.undefined_message());
  if (!affix.is_string())
    raise("{} needs a string or a tuple of strings, not '{}'", method, type_name(affix));
  return at_end ? text.ends_with(affix.str()) : text.starts_with(affix.str());
}

template <bool at_end>
Value affixed(Runtime& runtime, const Bound& args) {  // affix | start end
  const Window where = window(runtime, args, 2);
  const Sequence* tuple = args.at(1).sequence();
  std::vector<Value> affixes{args.at(1)};
  if (tuple && tuple->flavor == Sequence::Flavor::tuple) affixes = tuple->items;
  runtime.meter.step(affixes.size());
  bool found = false;
  for (const Value& affix : affixes) {
    found = found || (has_affix(where.text.str(), affix, at_end, args.name()) && !where.reversed);
  }
  return Value::boolean(found);
}

template <bool at_end>
Value remove_affix(Runtime& runtime, const Bound& args) {  // affix
  const std::string &text = self(args).text.str(), &affix = args.string(1).text.str();
  const bool there = at_end ? text.ends_with(affix) : text.starts_with(affix);
  if (!there) return args.subject();
  return at_end ? strings::part(runtime, self(args), 0, text.size() - affix.size())
                : strings::part(runtime, self(args), affix.size(), text.size());
}

// ---- questions about every character ----

template <bool (*property)(char32_t), bool of_empty>
Value all_are(Runtime& runtime, const Bound& args) {
  const std::string& text = self(args).text.str();
  runtime.meter.step(self(args).ascii ? 1 + text.size() / 64 : text.size());
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint c = unicode::decode(text, at);
    if (!property(c.value)) return Value::boolean(false);
    at += c.n_bytes;
  }
  return Value::boolean(of_empty || !text.empty());
}

bool is_alphanumeric(char32_t c) {
  return unicode::is_letter(c) || unicode::is_numeric(c);
}
bool is_ascii(char32_t c) {
  return c < 0x80;
}

template <bool upper>
Value has_case(Runtime& runtime, const Bound& args) {
  return apply(runtime, *find_test(upper ? "upper" : "lower"), args.subject(), {});
}

Value unsupported(Runtime&, const Bound& args) {
  raise("str.{} is not supported", args.name());
}

const BuiltinTable& text_methods() {
  using strings::Side;
  static const BuiltinTable table{
      {"capitalize", "", text_method<strings::capitalize>},
      {"casefold", "*", unsupported},
      {"center", "width | fillchar", pad<Side::both>},
      {"count", "sub | start end", count},
      {"encode", "*", unsupported},
      {"endswith", "suffix | start end", affixed<true>},
      {"expandtabs", "*", unsupported},
      {"find", "sub | start end", find<false, false>},
      {"format", "*", format},
      {"format_map", "*", unsupported},
      {"index", "sub | start end", find<false, true>},
      {"isalnum", "", all_are<is_alphanumeric, false>},
      {"isalpha", "", all_are<unicode::is_letter, false>},
      {"isascii", "", all_are<is_ascii, true>},
      {"isdecimal", "", all_are<unicode::is_decimal, false>},
      {"isdigit", "", all_are<unicode::is_digit, false>},
      {"isidentifier", "*", unsupported},
      {"islower", "", has_case<false>},
      {"isnumeric", "", all_are<unicode::is_numeric, false>},
      {"isprintable", "", all_are<unicode::is_printable, true>},
      {"isspace", "", all_are<unicode::is_space, false>},
      {"istitle", "*", unsupported},
      {"isupper", "", has_case<true>},
      {"join", "iterable", join},
      {"ljust", "width | fillchar", pad<Side::left>},
      {"lower", "", text_method<strings::lower>},
      {"lstrip", "| chars", strip<Side::left>},
      {"maketrans", "*", unsupported},
      {"partition", "sep", partition<false>},
      {"removeprefix", "prefix", remove_affix<false>},
      {"removesuffix", "suffix", remove_affix<true>},
      {"replace", "old new | count", replace},
      {"rfind", "sub | start end", find<true, false>},
      {"rindex", "sub | start end", find<true, true>},
      {"rjust", "width | fillchar", pad<Side::right>},
      {"rpartition", "sep", partition<true>},
      {"rsplit", "| sep maxsplit", split<strings::split_right>},
      {"rstrip", "| chars", strip<Side::right>},
      {"split", "| sep maxsplit", split<strings::split>},
      {"splitlines", "| keepends", split_lines},
      {"startswith", "prefix | start end", affixed<false>},
      {"strip", "| chars", strip<Side::both>},
      {"swapcase", "", text_method<strings::swapcase>},
      {"title", "", text_method<strings::title>},
      {"translate", "*", unsupported},
      {"upper", "", text_method<strings::upper>},
      {"zfill", "width", zero_fill},
  };
  return table;
}

// ---- list, tuple, range ----

Value sequence_index(Runtime& runtime, const Bound& args) {  // value | start stop
  const auto& items = args.subject().sequence()->items;
  const auto n = int64_t(items.size());
  const auto bound = [&](size_t i, int64_t otherwise) {
    const int64_t value = args.integer(i, otherwise);
    return std::clamp<int64_t>(value < 0 ? value + n : value, 0, n);
  };
  for (int64_t i = bound(2, 0), stop = bound(3, n); i < stop; ++i) {
    if (items[size_t(i)].same(args.at(1)) || runtime.equal(items[size_t(i)], args.at(1)))
      return Value::integer(i);
  }
  raise("the value is not in the {}", type_name(args.subject()));
}

Value sequence_count(Runtime& runtime, const Bound& args) {  // value
  const auto& items = args.subject().sequence()->items;
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return item.same(args.at(1)) || runtime.equal(item, args.at(1));
  }));
}

Value copy(Runtime&, const Bound& args) {
  return args.subject();
}  // values do not change

const BuiltinTable& list_methods() {
  static const BuiltinTable table{
      {"append", "", nullptr}, {"clear", "", nullptr},
      {"copy", "", copy},      {"count", "value", sequence_count},
      {"extend", "", nullptr}, {"index", "value | start stop", sequence_index},
      {"insert", "", nullptr}, {"pop", "", nullptr},
      {"remove", "", nullptr}, {"reverse", "", nullptr},
      {"sort", "", nullptr},
  };
  return table;
}

const BuiltinTable& tuple_methods() {
  static const BuiltinTable table{
      {"count", "value", sequence_count},
      {"index", "value | start stop", sequence_index},
  };
  return table;
}

// ---- dict ----

Value dict_get(Runtime& runtime, const Bound& args) {  // key | default
  if (!hashable(args.at(1))) raise("unhashable type: '{}'", type_name(args.at(1)));
  if (const Value* value = runtime.find(args.subject().dict(), args.at(1))) return *value;
  return args.find(2) ? args.at(2) : Value::none();
}

template <Sequence::Flavor flavor>
Value view(Runtime& runtime, const Bound& args) {
  std::vector<Value> items;
  const auto& entries = args.subject().dict().entries;
  items.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    if (flavor == Sequence::Flavor::keys) items.push_back(key);
    if (flavor == Sequence::Flavor::values) items.push_back(value);
    if (flavor == Sequence::Flavor::items) items.push_back(runtime.tuple({key, value}));
  }
  return runtime.sequence(flavor, std::move(items));
}

const BuiltinTable& dict_methods() {
  static const BuiltinTable table{
      {"clear", "", nullptr},
      {"copy", "", copy},
      {"get", "key | default", dict_get},
      {"items", "", view<Sequence::Flavor::items>},
      {"keys", "", view<Sequence::Flavor::keys>},
      {"pop", "", nullptr},
      {"popitem", "", nullptr},
      {"setdefault", "", nullptr},
      {"update", "", nullptr},
      {"values", "", view<Sequence::Flavor::values>},
  };
  return table;
}

}  // namespace

const Builtin* find_method(const Value& object, std::string_view name) {
  if (object.is_string()) return text_methods().find(name);
  if (object.is_dict()) return dict_methods().find(name);
  if (const Object* held = object.object()) return held->method(name);
  const Sequence* sequence = object.sequence();
  if (!sequence || sequence->flavor > Sequence::Flavor::range) return nullptr;
  return (sequence->flavor == Sequence::Flavor::list ? list_methods() : tuple_methods()).find(name);
}

}  // namespace cera::text::jinja
