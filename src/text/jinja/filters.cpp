// The filters of Jinja that templates use, and transformers' tojson.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja/builtins.h"
#include "text/jinja/merge_sort.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

/// str(subject), keeping markup.
Value subject_text(Runtime& runtime, const Bound& args) {
  return runtime.to_string(args.subject());
}

template <Value (*operation)(Runtime&, const String&)>
Value text_filter(Runtime& runtime, const Bound& args) {
  return operation(runtime, subject_text(runtime, args).string());
}

// ---- attributes by path: "function.name", "items.0", 3 ----

class Getter {
 public:
  Getter(Runtime& runtime, const Value* attribute, const Value* otherwise = nullptr)
      : runtime_(runtime), otherwise_(otherwise && !otherwise->is_none() ? otherwise : nullptr) {
    if (!attribute || attribute->is_none()) return;
    if (!attribute->is_string()) {
      path_.push_back(*attribute);
      return;
    }
    for (std::string_view rest = attribute->str();;) {
      const std::string_view name = rest.substr(0, rest.find('.'));
      path_.push_back(part(name));
      if (name.size() == rest.size()) break;
      rest.remove_prefix(name.size() + 1);
    }
  }

  Value operator()(Value value) const {
    for (const Value& key : path_) {
      value = runtime_.item(value, key);
      if (otherwise_ && value.is_undefined()) value = *otherwise_;
    }
    return value;
  }

 private:
  Value part(std::string_view name) {
    int64_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = error == std::errc() && end == name.data() + name.size() && name[0] != '-';
    return number ? Value::integer(index) : runtime_.text(name);
  }
  Runtime& runtime_;
  const Value* otherwise_;
  std::vector<Value> path_;
};

Value ignore_case(Runtime& runtime, Value value, bool case_sensitive) {
  return case_sensitive || !value.is_string() ? value : strings::lower(runtime, value.string());
}

// ---- sorting ----

struct Sortable {
  std::vector<Value> keys;
  Value value;
};

bool before(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i].same(b[i]) || runtime.equal(a[i], b[i])) continue;
    return runtime.compare(CompareOp::less, a[i], b[i]);
  }
  return false;
}

std::vector<Value> sorted(Runtime& runtime, std::vector<Sortable> rows, bool reverse) {
  merge_sort(rows, [&](const Sortable& a, const Sortable& b) {
    return reverse ? before(runtime, b.keys, a.keys) : before(runtime, a.keys, b.keys);
  });
  std::vector<Value> values;
  values.reserve(rows.size());
  for (Sortable& row : rows) values.push_back(std::move(row.value));
  return values;
}

Value sort(Runtime& runtime, const Bound& args) {  // | reverse case_sensitive attribute
  std::vector<Getter> getters;
  if (const Value* attribute = args.find(3); attribute && attribute->is_string()) {
    const Value comma = runtime.text(",");
    for (const Value& name : strings::split(runtime, attribute->string(), &comma.string(), -1)) {
      getters.emplace_back(runtime, &name);
    }
  } else {
    getters.emplace_back(runtime, attribute);
  }
  std::vector<Sortable> rows;
  for (Value& value : runtime.items(args.subject())) {
    Sortable row{{}, std::move(value)};
    for (const Getter& getter : getters) {
      row.keys.push_back(ignore_case(runtime, getter(row.value), args.flag(2)));
    }
    rows.push_back(std::move(row));
  }
  return runtime.list(sorted(runtime, std::move(rows), args.flag(1)));
}

Value dictsort(Runtime& runtime, const Bound& args) {  // | case_sensitive by reverse
  if (args.subject().is_undefined()) raise("{}", args.subject().undefined_message());
  if (!args.subject().is_dict())
    raise("dictsort needs a mapping, not '{}'", type_name(args.subject()));
  const std::string by = args.find(2) ? args.string(2).text.str() : "key";
  if (by != "key" && by != "value") raise("dictsort sorts by 'key' or 'value', not '{}'", by);
  std::vector<Sortable> rows;
  for (const auto& [key, value] : args.subject().dict().entries) {
    rows.push_back({{ignore_case(runtime, by == "key" ? key : value, args.flag(1))},
                    runtime.tuple({key, value})});
  }
  return runtime.list(sorted(runtime, std::move(rows), args.flag(3)));
}

Value groupby(Runtime& runtime, const Bound& args) {  // attribute | default case_sensitive
  const Getter getter(runtime, &args.at(1), args.find(2));
  std::vector<Sortable> rows;
  for (Value& value : runtime.items(args.subject())) {
    const Value key = ignore_case(runtime, getter(value), args.flag(3));
    rows.push_back({{key}, runtime.tuple({key, std::move(value)})});
  }
  std::vector<Value> groups, members;
  Value current;
  const auto close = [&] {
    if (members.empty()) return;
    const Value key = args.flag(3) ? current : getter(members[0]);
    groups.push_back(
        runtime.sequence(Sequence::Flavor::group, {key, runtime.list(std::exchange(members, {}))}));
  };
  for (const Value& row : sorted(runtime, std::move(rows), false)) {
    const Value& key = row.sequence()->items[0];
    if (members.empty() || !runtime.equal(key, current)) close();
    current = key;
    members.push_back(row.sequence()->items[1]);
  }
  close();
  return runtime.list(std::move(groups));
}

template <CompareOp better>
Value extreme(Runtime& runtime, const Bound& args) {  // | case_sensitive attribute
  const Getter getter(runtime, args.find(2));
  Cursor cursor(runtime, args.subject());
  Value best;
  if (!cursor.next(best)) return Value::undefined("No aggregated item, sequence was empty.");
  Value best_key = ignore_case(runtime, getter(best), args.flag(1));
  for (Value value; cursor.next(value);) {
    Value key = ignore_case(runtime, getter(value), args.flag(1));
    if (!runtime.compare(better, key, best_key)) continue;
    best = std::move(value);
    best_key = std::move(key);
  }
  return best;
}

Value unique(Runtime& runtime, const Bound& args) {  // | case_sensitive attribute
  const Getter getter(runtime, args.find(2));
  std::vector<Value> seen, kept;
  for (Value& value : runtime.items(args.subject())) {
    Value key = ignore_case(runtime, getter(value), args.flag(1));
    if (!hashable(key)) raise("unhashable type: '{}'", type_name(key));
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const Value& s) { return runtime.equal(s, key); }))
      continue;
    seen.push_back(std::move(key));
    kept.push_back(std::move(value));
  }
  return runtime.iterator(std::move(kept));
}

// ---- filters that call filters and tests ----

const Builtin& named(const Value& name, const Builtin* (*find)(std::string_view),
                     std::string_view what) {
  if (name.is_undefined()) {
    raise("no {} of that name ({}; did you forget to quote it?)", what, name.undefined_message());
  }
  const Builtin* builtin = name.is_string() ? find(name.str()) : nullptr;
  if (!builtin || !builtin->run)
    raise("no {} named '{}'", what, name.is_string() ? name.str() : "?");
  return *builtin;
}

Arguments without_first(const Arguments& arguments, size_t n) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + ptrdiff_t(n));
  return rest;
}

Value map(Runtime& runtime, const Bound& args) {
  if (!truth(args.subject())) return runtime.iterator({});
  std::vector<Value> results = runtime.items(args.subject());
  const Arguments& raw = args.raw();
  if (!raw.positional.empty()) {
    const Builtin& filter = named(raw.positional[0], find_filter, "filter");
    const Arguments rest = without_first(raw, 1);
    for (Value& value : results) value = apply(runtime, filter, value, rest);
    return runtime.iterator(std::move(results));
  }
  const Value *attribute = nullptr, *otherwise = nullptr;
  for (const auto& [key, value] : raw.keywords) {
    if (key == "attribute")
      attribute = &value;
    else if (key == "default")
      otherwise = &value;
    else
      raise("map() got an unexpected argument '{}'", key);
  }
  if (!attribute) raise("map requires a filter argument");
  const Getter getter(runtime, attribute, otherwise);
  for (Value& value : results) value = getter(value);
  return runtime.iterator(std::move(results));
}

template <bool wanted, bool by_attribute>
Value select(Runtime& runtime, const Bound& args) {
  if (!truth(args.subject())) return runtime.iterator({});
  const Arguments& raw = args.raw();
  if (by_attribute && raw.positional.empty()) raise("missing parameter for attribute name");
  const Getter getter(runtime, by_attribute ? &raw.positional[0] : nullptr);
  const size_t first = by_attribute;
  const bool plain = raw.positional.size() <= first;
  const Builtin* test = plain ? nullptr : &named(raw.positional[first], find_test, "test");
  const Arguments rest = plain ? Arguments{} : without_first(raw, first + 1);
  std::vector<Value> kept;
  for (Value& value : runtime.items(args.subject())) {
    Value tested = getter(value);
    if (test) tested = apply(runtime, *test, tested, rest);
    if (truth(tested) == wanted) kept.push_back(std::move(value));
  }
  return runtime.iterator(std::move(kept));
}

// ---- sequences ----

Value list(Runtime& runtime, const Bound& args) {
  return runtime.list(runtime.items(args.subject()));
}

Value length(Runtime& runtime, const Bound& args) {
  return Value::integer(int64_t(runtime.length(args.subject())));
}

Value first(Runtime& runtime, const Bound& args) {
  Cursor cursor(runtime, args.subject());
  Value value;
  return cursor.next(value) ? value : Value::undefined("No first item, sequence was empty.");
}

Value last(Runtime& runtime, const Bound& args) {
  if (args.subject().object()) raise("'{}' object is not reversible", type_name(args.subject()));
  const std::vector<Value> items = runtime.items(args.subject());
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Runtime& runtime, const Bound& args) {
  if (args.subject().is_string()) {
    return runtime.slice(args.subject(), Value::none(), Value::none(), Value::integer(-1));
  }
  std::vector<Value> items = runtime.items(args.subject());
  std::reverse(items.begin(), items.end());
  return runtime.iterator(std::move(items));
}

Value items(Runtime& runtime, const Bound& args) {
  if (args.subject().is_undefined()) return runtime.iterator({});
  if (!args.subject().is_dict()) raise("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : args.subject().dict().entries)
    pairs.push_back(runtime.tuple({key, value}));
  return runtime.iterator(std::move(pairs));
}

Value join(Runtime& runtime, const Bound& args) {  // | d attribute
  const Getter getter(runtime, args.find(2));
  const SpanText separator = args.find(1) ? runtime.to_text(args.at(1)) : SpanText();
  TextBuilder out(runtime.meter);
  Cursor cursor(runtime, args.subject());
  bool started = false;
  for (Value value; cursor.next(value); started = true) {
    if (started) out.append(separator);
    runtime.append_str(out, getter(value));
  }
  return std::move(out).finish();
}

Value sum(Runtime& runtime, const Bound& args) {  // | attribute start
  const Getter getter(runtime, args.find(1));
  Value total = args.find(2) ? args.at(2) : Value::integer(0);
  if (total.is_string()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(runtime, args.subject());
  for (Value value; cursor.next(value);)
    total = runtime.binary(BinaryOp::add, total, getter(value));
  return total;
}

Value batch(Runtime& runtime, const Bound& args) {  // linecount | fill_with
  const int64_t size = args.integer(1);
  std::vector<Value> rows, row;
  for (Value& value : runtime.items(args.subject())) {
    if (int64_t(row.size()) == size) rows.push_back(runtime.list(std::exchange(row, {})));
    row.push_back(std::move(value));
  }
  Account account(&runtime.meter);
  while (!row.empty() && args.given(2) && int64_t(row.size()) < size) {
    account.take(sizeof(Value));
    row.push_back(args.at(2));
  }
  if (!row.empty()) rows.push_back(runtime.list(std::move(row)));
  return runtime.iterator(std::move(rows));
}

Value slice(Runtime& runtime, const Bound& args) {  // slices | fill_with
  const std::vector<Value> items = runtime.items(args.subject());
  const int64_t n = args.integer(1);
  if (n == 0) raise("integer division or modulo by zero");
  std::vector<Value> slices;
  const size_t each = n > 0 ? items.size() / size_t(n) : 0,
               longer = n > 0 ? items.size() % size_t(n) : 0;
  auto at = items.begin();
  for (size_t i = 0; int64_t(i) < n; ++i) {
    const auto end = at + ptrdiff_t(each + (i < longer));
    std::vector<Value> part(at, end);
    if (args.given(2) && i >= longer) part.push_back(args.at(2));
    slices.push_back(runtime.list(std::move(part)));
    at = end;
  }
  return runtime.iterator(std::move(slices));
}

// ---- numbers ----

/// Removes the underscores that Python allows between digits; false when one stands elsewhere.
bool remove_underscores(std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (!between || !std::isalnum(uint8_t(text[i - 1])) || !std::isalnum(uint8_t(text[i + 1])))
      return false;
  }
  std::erase(text, '_');
  return true;
}

std::optional<double> parse_real(std::string text) {
  if (!remove_underscores(text)) return {};
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  std::string name = text;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return char(unicode::to_lower(uint8_t(c))); });
  double value = 0;
  if (name == "inf" || name == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (name == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool digits = !text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
    if (!digits || end != text.data() + text.size()) return {};
    if (error == std::errc::result_out_of_range)
      value = text.find("e-") == text.npos ? HUGE_VAL : 0;
  }
  return negative ? -value : value;
}

/// float(value); nothing where Python raises TypeError or ValueError.
std::optional<double> to_real(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) raise("{}", value.undefined_message());
  if (value.is_number()) return value.as_real();
  if (!value.is_string() || value.str().size() > 400) return {};
  const Value stripped = strings::strip(runtime, value.string(), nullptr, strings::Side::both);
  return parse_real(stripped.str());
}

/// int(text, base); nothing where Python raises ValueError.
std::optional<int64_t> parse_integer(std::string text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return {};
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  for (const auto& [letter, of] : {std::pair{'x', 16}, {'o', 8}, {'b', 2}}) {
    const bool prefixed = text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter;
    if (!prefixed || (base != of && base != 0)) continue;
    base = of;
    text.erase(0, 2);
  }
  if (!remove_underscores(text) || text.empty() || text.starts_with('-')) return {};
  if (negative) text.insert(0, 1, '-');
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, base ? int(base) : 10);
  if (end != text.data() + text.size()) return {};
  if (error == std::errc::result_out_of_range) raise("the integer does not fit in 64 bits");
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Value truncated(double value) {
  if (!(std::fabs(value) < 0x1p63))
    raise("the number {} does not fit in 64 bits", float_repr(value));
  return Value::integer(int64_t(value));
}

Value to_int(Runtime& runtime, const Bound& args) {  // | default base
  const Value& value = args.subject();
  const Value otherwise = args.find(1) ? args.at(1) : Value::integer(0);
  if (value.is_string()) {
    if (value.str().size() > 400) return otherwise;
    const Value stripped = strings::strip(runtime, value.string(), nullptr, strings::Side::both);
    if (const auto parsed = parse_integer(stripped.str(), args.integer(2, 10)))
      return Value::integer(*parsed);
  }
  if (value.is_integer()) return Value::integer(value.as_integer());
  if (value.kind() == Value::Kind::big_integer) return value;
  const std::optional<double> real = to_real(runtime, value);
  if (!real || std::isnan(*real)) return otherwise;
  if (value.is_string() && std::isinf(*real)) return otherwise;
  return truncated(*real);
}

Value to_float(Runtime& runtime, const Bound& args) {  // | default
  if (const auto real = to_real(runtime, args.subject())) return Value::real(*real);
  return args.find(1) ? args.at(1) : Value::real(0);
}

void need_number(const Value& value, std::string_view filter) {
  if (!value.is_number()) raise("'{}' needs a number, not '{}'", filter, type_name(value));
}

Value absolute(Runtime& runtime, const Bound& args) {
  const Value& value = args.subject();
  need_number(value, "abs");
  if (value.is_real()) return Value::real(std::fabs(value.as_real()));
  if (value.kind() == Value::Kind::big_integer) return value;
  return value.as_integer() < 0 ? runtime.negate(value) : Value::integer(value.as_integer());
}

/// Python's round: the decimal nearest to the exact value, ties to even.
double round_half_even(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 320) return value;
  if (digits < -320) return std::copysign(0.0, value);
  if (digits < 0) {
    const double unit = std::pow(10.0, double(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  return parse_real(fmt::format("{:.{}f}", value, digits)).value_or(value);
}

Value round(Runtime& runtime, const Bound& args) {  // | precision method
  const Value& value = args.subject();
  need_number(value, "round");
  const int64_t digits = args.integer(1, 0);
  const std::string method = args.find(2) ? args.string(2).text.str() : "common";
  if (method == "ceil" || method == "floor") {
    const double unit = std::pow(10.0, double(digits));
    const double scaled = value.as_real() * unit;
    return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
  }
  if (method != "common") raise("method must be common, ceil or floor");
  if (value.is_real()) return Value::real(round_half_even(value.as_real(), digits));
  if (digits >= 0) return value.is_boolean() ? runtime.plus(value) : value;
  return truncated(round_half_even(value.as_real(), digits));
}

// ---- text ----

Value trim(Runtime& runtime, const Bound& args) {  // | chars
  const String* chars = args.given(1) ? &args.string(1) : nullptr;
  return strings::strip(runtime, subject_text(runtime, args).string(), chars, strings::Side::both);
}

Value replace(Runtime& runtime, const Bound& args) {  // old new | count
  const Value text = subject_text(runtime, args);
  const Value from = runtime.to_string(args.at(1)), to = runtime.to_string(args.at(2));
  const int64_t limit = args.given(3) ? args.integer(3) : -1;
  const Value replaced =
      strings::replace(runtime, text.string(), from.string(), to.string(), limit);
  return replaced.string().markup ? runtime.string(replaced.string().text) : replaced;
}

Value center(Runtime& runtime, const Bound& args) {  // | width
  const SpanText blank(" ", Origin::template_text);
  return strings::pad(runtime, subject_text(runtime, args).string(), args.integer(1, 80), blank,
                      strings::Side::both);
}

Value indent(Runtime& runtime, const Bound& args) {  // | width first blank
  const String& text = args.string(0);
  SpanText indentation;
  if (args.find(1) && args.at(1).is_string()) {
    indentation = args.string(1).text;
  } else {
    const int64_t width = args.integer(1, 4);
    if (width > 10'000) raise("an indentation of {} is not supported", width);
    indentation =
        SpanText(std::string(size_t(std::max<int64_t>(width, 0)), ' '), Origin::template_text);
  }
  const Value ended = runtime.binary(BinaryOp::add, args.subject(), runtime.text("\n"));
  const std::vector<Value> lines = strings::split_lines(runtime, ended.string(), false);
  TextBuilder out(runtime.meter);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    const bool indented = i > 0 ? args.flag(3) || !lines[i].str().empty() : args.flag(2);
    if (indented) out.append(indentation);
    out.append(lines[i].string().text);
  }
  return std::move(out).finish(text.markup);
}

Value truncate(Runtime& runtime, const Bound& args) {  // | length killwords end leeway
  const Value& subject = args.subject();
  const Value end = args.find(3) ? args.at(3) : runtime.text("...");
  const auto end_length = int64_t(runtime.length(end));
  const int64_t length = args.integer(1, 255);
  const int64_t leeway = args.given(4) ? args.integer(4) : 5;
  if (length < end_length) raise("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  if (int64_t(runtime.length(subject)) - leeway <= length) return subject;
  Value kept =
      runtime.slice(subject, Value::none(), Value::integer(length - end_length), Value::none());
  if (!args.flag(2)) {
    if (!kept.is_string()) raise("truncate needs a string, not '{}'", type_name(subject));
    const Value blank = runtime.text(" ");
    kept = strings::split_right(runtime, kept.string(), &blank.string(), 1)[0];
  }
  return runtime.binary(BinaryOp::add, kept, end);
}

Value wordcount(Runtime& runtime, const Bound& args) {
  const Value text = subject_text(runtime, args);
  runtime.meter.step(text.string().ascii ? 1 : text.str().size());
  runtime.meter.work(text.str().size());
  int64_t n = 0;
  bool inside = false;
  for (size_t at = 0; at < text.str().size();) {
    const unicode::CodePoint c = unicode::decode(text.str(), at);
    const bool word = unicode::is_word(c.value);
    n += word && !inside;
    inside = word;
    at += c.n_bytes;
  }
  return Value::integer(n);
}

void append_quoted(TextBuilder& out, const SpanText& text, bool query) {
  const std::string_view kept = query ? "_.-~" : "_.-~/";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.str()[i];
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (alphanumeric || kept.find(c) != kept.npos) {
      out.append(text, i, 1);
    } else {
      out.append(query && c == ' ' ? "+" : fmt::format("%{:02X}", uint8_t(c)), text.origin_at(i));
    }
  }
}

Value urlencode(Runtime& runtime, const Bound& args) {
  const Value& subject = args.subject();
  TextBuilder out(runtime.meter);
  const bool pairs = subject.is_dict() || subject.sequence() || subject.is_undefined();
  if (!pairs) {
    append_quoted(out, runtime.to_text(subject), false);
    return std::move(out).finish();
  }
  std::vector<Value> rows =
      subject.is_dict() ? runtime.items(items(runtime, args)) : runtime.items(subject);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<Value> pair = runtime.items(rows[i]);
    if (pair.size() != 2) raise("urlencode needs pairs, not {} values", pair.size());
    if (i > 0) out.append("&");
    append_quoted(out, runtime.to_text(pair[0]), true);
    out.append("=");
    append_quoted(out, runtime.to_text(pair[1]), true);
  }
  return std::move(out).finish();
}

Value format(Runtime& runtime, const Bound& args) {
  const Arguments& raw = args.raw();
  if (!raw.positional.empty() && !raw.keywords.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  Value values = runtime.tuple(raw.positional);
  if (!raw.keywords.empty()) {
    Runtime::Entries entries;
    for (const auto& [key, value] : raw.keywords) {
      entries.emplace_back(runtime.text(key, raw.keyword_origin), value);
    }
    values = runtime.dict(std::move(entries));
  }
  return runtime.percent_format(subject_text(runtime, args), values);
}

Value tojson(Runtime& runtime, const Bound& args) {  // | ensure_ascii indent separators sort_keys
  JsonOptions options;
  options.ensure_ascii = args.flag(1);
  options.sort_keys = args.flag(4);
  if (args.given(2) && args.at(2).is_string()) {
    options.indent = args.string(2).text;
  } else if (args.given(2)) {
    const int64_t width = args.integer(2);
    if (width > 1000) raise("an indentation of {} is not supported", width);
    options.indent =
        SpanText(std::string(size_t(std::max<int64_t>(width, 0)), ' '), Origin::template_text);
  }
  if (args.given(3)) {
    const std::vector<Value> pair = runtime.items(args.at(3));
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      raise("tojson's separators must be two strings");
    }
    options.separators = std::pair(pair[0].string().text, pair[1].string().text);
  }
  return to_json(runtime, args.subject(), options);
}

// ---- anything ----

Value otherwise(Runtime& runtime, const Bound& args) {  // | default_value boolean
  const bool missing = args.subject().is_undefined() || (args.flag(2) && !truth(args.subject()));
  if (!missing) return args.subject();
  return args.find(1) ? args.at(1) : runtime.text("");
}

Value attr(Runtime& runtime, const Bound& args) {  // name
  const Value& object = args.subject();
  const std::string name = args.string(1).text.str();
  const bool only_items = object.is_dict() && !find_method(object, name);
  return only_items ? Value::undefined(fmt::format("'dict object' has no attribute '{}'", name))
                    : runtime.attribute(object, name);
}

Value safe(Runtime& runtime, const Bound& args) {
  const Value text = subject_text(runtime, args);
  return text.string().markup ? text : runtime.string(text.string().text, true);
}

Value escape(Runtime& runtime, const Bound& args) {
  return runtime.escaped(args.subject());
}

Value force_escape(Runtime& runtime, const Bound& args) {
  return runtime.escaped(runtime.string(runtime.to_text(args.subject())));
}

Value string(Runtime& runtime, const Bound& args) {
  return subject_text(runtime, args);
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  static const BuiltinTable table{
      {"abs", "", absolute},
      {"attr", "name", attr},
      {"batch", "linecount | fill_with", batch},
      {"capitalize", "", text_filter<strings::capitalize>},
      {"center", "| width", center},
      {"count", "", length},
      {"d", "| default_value boolean", otherwise},
      {"default", "| default_value boolean", otherwise},
      {"dictsort", "| case_sensitive by reverse", dictsort},
      {"e", "", escape},
      {"escape", "", escape},
      {"filesizeformat", "*", nullptr},
      {"first", "", first},
      {"float", "| default", to_float},
      {"forceescape", "", force_escape},
      {"format", "*", format},
      {"groupby", "attribute | default case_sensitive", groupby},
      {"indent", "| width first blank", indent},
      {"int", "| default base", to_int},
      {"items", "", items},
      {"join", "| d attribute", join},
      {"last", "", last},
      {"length", "", length},
      {"list", "", list},
      {"lower", "", text_filter<strings::lower>},
      {"map", "*", map},
      {"max", "| case_sensitive attribute", extreme<CompareOp::greater>},
      {"min", "| case_sensitive attribute", extreme<CompareOp::less>},
      {"pprint", "*", nullptr},
      {"random", "*", nullptr},
      {"reject", "*", select<false, false>},
      {"rejectattr", "*", select<false, true>},
      {"replace", "old new | count", replace},
      {"reverse", "", reverse},
      {"round", "| precision method", round},
      {"safe", "", safe},
      {"select", "*", select<true, false>},
      {"selectattr", "*", select<true, true>},
      {"slice", "slices | fill_with", slice},
      {"sort", "| reverse case_sensitive attribute", sort},
      {"string", "", string},
      {"striptags", "*", nullptr},
      {"sum", "| attribute start", sum},
      {"title", "", text_filter<strings::title_filter>},
      {"tojson", "| ensure_ascii indent separators sort_keys", tojson},
      {"trim", "| chars", trim},
      {"truncate", "| length killwords end leeway", truncate},
      {"unique", "| case_sensitive attribute", unique},
      {"upper", "", text_filter<strings::upper>},
      {"urlencode", "", urlencode},
      {"urlize", "*", nullptr},
      {"wordcount", "", wordcount},
      {"wordwrap", "*", nullptr},
      {"xmlattr", "*", nullptr},
  };
  return table.find(name);
}

}  // namespace cera::text::jinja
