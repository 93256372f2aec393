#include "text/jinja/runtime.h"

#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

constexpr size_t kObjectBytes = 96;  // about what a value's block costs beside its contents

/// 'dict object', for messages.
std::string described(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", type_name(value));
}

/// Sequences that can be indexed and sliced; dict views cannot.
bool subscriptable(const Sequence& sequence) {
  return sequence.flavor <= Sequence::Flavor::range;
}

uint32_t deeper(uint32_t depth, const Value& value) {
  return std::max(depth, value.depth() + 1);
}

/// Python's slice.indices().
struct Range {
  int64_t start, stop, step;
  size_t size() const {
    if (step > 0) return start < stop ? size_t((stop - start - 1) / step + 1) : 0;
    return start > stop ? size_t((start - stop - 1) / -step + 1) : 0;
  }
};

Range slice_range(const Value& start, const Value& stop, const Value& step, size_t size) {
  const auto n = int64_t(size);
  const auto bound = [&](const Value& value, int64_t otherwise, int64_t low, int64_t high) {
    if (value.is_none()) return otherwise;
    const int64_t index = to_index(value, "slice indices");
    return std::clamp(index < 0 ? index + n : index, low, high);
  };
  Range range{0, 0, step.is_none() ? 1 : to_index(step, "slice indices")};
  if (range.step == 0) raise("slice step cannot be zero");
  range.step = std::clamp<int64_t>(range.step, -(n + 1), n + 1);  // one step leaves the sequence
  const bool up = range.step > 0;
  range.start = bound(start, up ? 0 : n - 1, up ? 0 : -1, up ? n : n - 1);
  range.stop = bound(stop, up ? n : -1, up ? 0 : -1, up ? n : n - 1);
  return range;
}

Value slice_text(Runtime& runtime, const String& string, const Value& start, const Value& stop,
                 const Value& step) {
  const std::string& text = string.text.str();
  runtime.meter.work(text.size());
  const size_t length = string.ascii ? text.size() : unicode::length(text);
  const Range range = slice_range(start, stop, step, length);
  TextBuilder out(runtime.meter);
  if (range.size() == 0) return std::move(out).finish(string.markup);
  if (range.step == 1) {
    const auto byte_of = [&](int64_t n) {
      return string.ascii ? size_t(n) : unicode::byte_of(text, n);
    };
    const size_t begin = byte_of(range.start);
    out.append(string.text, begin, byte_of(range.stop) - begin);
    return std::move(out).finish(string.markup);
  }
  Account account(&runtime.meter);
  account.take((length + 1) * sizeof(size_t));
  std::vector<size_t> offsets;
  offsets.reserve(length + 1);
  for (size_t at = 0; at < text.size(); at += unicode::decode(text, at).n_bytes) {
    offsets.push_back(at);
  }
  offsets.push_back(text.size());
  for (size_t i = 0, n = range.size(); i < n; ++i) {
    const auto at = size_t(range.start + int64_t(i) * range.step);
    out.append(string.text, offsets[at], offsets[at + 1] - offsets[at]);
  }
  return std::move(out).finish(string.markup);
}

}  // namespace

void TextBuilder::reserve(size_t n_bytes) {
  meter_->work(n_bytes);
  if (n_bytes > meter_->max_text_bytes - text_.size()) {
    raise("the text grows beyond {} bytes", meter_->max_text_bytes);
  }
  account_.take(n_bytes);
}

void TextBuilder::append(std::string_view text, Origin origin) {
  reserve(text.size());
  const size_t n_runs = text_.runs().size();
  text_.append(text, origin);
  account_.take((text_.runs().size() - n_runs) * sizeof(SpanText::Run));
}

void TextBuilder::append(const SpanText& text) {
  append(text, 0, text.size());
}

void TextBuilder::append(const SpanText& text, size_t position, size_t n_bytes) {
  reserve(n_bytes);
  const size_t n_runs = text_.runs().size();
  if (position == 0 && n_bytes == text.size()) {
    text_.append(text);
  } else {
    text_.append(text.substr(position, n_bytes));
  }
  account_.take((text_.runs().size() - n_runs) * sizeof(SpanText::Run));
}

Value TextBuilder::finish(bool markup) && {
  account_.take(kObjectBytes);
  const bool ascii = unicode::is_ascii(text_.str());
  return Value(
      std::make_shared<const String>(String{std::move(text_), std::move(account_), ascii, markup}));
}

Runtime::~Runtime() {
  for (const auto& ns : namespaces_) ns->clear();
}

Value Runtime::string(SpanText text, bool markup) {
  Account account(&meter);
  account.take(kObjectBytes + text.size() + text.runs().size() * sizeof(SpanText::Run));
  meter.work(text.size());
  const bool ascii = unicode::is_ascii(text.str());
  return Value(
      std::make_shared<const String>(String{std::move(text), std::move(account), ascii, markup}));
}

Value Runtime::text(std::string_view text, Origin origin) {
  TextBuilder out(meter);
  out.append(text, origin);
  return std::move(out).finish();
}

Value Runtime::sequence(Sequence::Flavor flavor, std::vector<Value> items) {
  Account account(&meter);
  account.take(kObjectBytes + items.size() * sizeof(Value));
  meter.step(1 + items.size() / 8);
  uint32_t depth = 1;
  bool all_hashable = flavor == Sequence::Flavor::tuple || flavor == Sequence::Flavor::range;
  for (const Value& item : items) {
    depth = deeper(depth, item);
    all_hashable = all_hashable && hashable(item);
  }
  check_depth(depth);
  return Value(std::make_shared<const Sequence>(
      Sequence{std::move(items), flavor, depth, all_hashable, std::move(account)}));
}

Value Runtime::dict(Entries entries) {
  Account account(&meter);
  account.take(kObjectBytes + entries.size() * sizeof(Entries::value_type));
  meter.step(1 + entries.size() / 8);
  uint32_t depth = 1;
  for (const auto& [key, value] : entries) depth = deeper(deeper(depth, key), value);
  check_depth(depth);
  return Value(std::make_shared<const Dict>(Dict{std::move(entries), depth, std::move(account)}));
}

Value Runtime::iterator(std::vector<Value> items) {
  Account account(&meter);
  account.take(kObjectBytes + items.size() * sizeof(Value));
  uint32_t depth = 1;
  for (const Value& item : items) depth = deeper(depth, item);
  check_depth(depth);
  return object<Iterator>(std::move(items), depth, std::move(account));
}

Value Runtime::make_namespace(const Entries& entries) {
  meter.take(2 * kObjectBytes + entries.size() * sizeof(Entries::value_type));  // until the end
  meter.step(1 + entries.size() * entries.size() / 16);
  auto made = std::make_shared<Namespace>();
  for (const auto& [key, value] : entries) {
    if (!key.is_string()) raise("namespace() keywords must be strings");
    if (key.str().starts_with('_'))
      raise("a namespace cannot store '{}': the name starts with '_'", key.str());
    made->set(key.str(), value);
  }
  namespaces_.push_back(made);
  return Value(std::static_pointer_cast<Object>(std::move(made)));
}

void Runtime::set(Entries& entries, Value key, Value value) {
  if (!hashable(key)) raise("unhashable type: '{}'", type_name(key));
  for (auto& [name, old] : entries) {
    if (equal(name, key)) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

Value Runtime::undefined_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", described(object), name));
}

Value Runtime::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) raise("{}", object.undefined_message());
  if (const Builtin* method = find_method(object, name)) {
    if (!method->run) {
      return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.",
                                          name, type_name(object)));
    }
    return bound_method(*this, object, *method);
  }
  if (Object* target = object.object()) {
    const Value found = target->attribute(*this, name);
    if (!found.is_undefined()) return found;
  }
  const Sequence* sequence = object.sequence();
  if (sequence && sequence->flavor == Sequence::Flavor::group) {
    if (name == "grouper" || name == "list") return sequence->items[name == "list"];
  }
  if (object.is_dict()) {
    meter.step(1 + object.dict().entries.size() / 16);
    if (const Value* value = object.dict().find(name)) return *value;
  }
  return undefined_attribute(object, name);
}

Value Runtime::sequence_item(const Value& object, int64_t index) {
  const size_t size = length(object);
  const int64_t asked = index;
  if (index < 0) index += int64_t(size);
  if (index < 0 || uint64_t(index) >= size) {
    return Value::undefined(fmt::format("{} has no element {}", described(object), asked));
  }
  if (const Sequence* sequence = object.sequence()) return sequence->items[size_t(index)];
  const String& string = object.string();
  const std::string& text = string.text.str();
  const size_t at = string.ascii ? size_t(index) : unicode::byte_of(text, size_t(index));
  return this->string(string.text.substr(at, unicode::decode(text, at).n_bytes), string.markup);
}

Value Runtime::item(const Value& object, const Value& key) {
  if (object.is_undefined()) raise("{}", object.undefined_message());
  const Sequence* sequence = object.sequence();
  const bool indexable = object.is_string() || (sequence && subscriptable(*sequence));
  if (indexable && key.is_integer()) return sequence_item(object, key.as_integer());
  if (object.is_dict() && hashable(key)) {
    if (const Value* value = find(object.dict(), key)) return *value;
  }
  if (key.is_string()) return attribute(object, key.str());
  TextBuilder shown(meter);
  append_repr(shown, key);
  return Value::undefined(
      fmt::format("{} has no element {}", described(object), shown.text().str()));
}

Value Runtime::slice(const Value& object, const Value& start, const Value& stop,
                     const Value& step) {
  if (object.is_undefined()) raise("{}", object.undefined_message());
  if (object.is_string()) return slice_text(*this, object.string(), start, stop, step);
  const Sequence* sequence = object.sequence();
  if (!sequence || !subscriptable(*sequence))
    raise("'{}' object cannot be sliced", type_name(object));
  const Range range = slice_range(start, stop, step, sequence->items.size());
  std::vector<Value> items;
  const size_t n = range.size();
  meter.step(n);
  items.reserve(n);
  for (size_t i = 0; i < n; ++i)
    items.push_back(sequence->items[size_t(range.start + int64_t(i) * range.step)]);
  const bool group = sequence->flavor == Sequence::Flavor::group;
  return this->sequence(group ? Sequence::Flavor::tuple : sequence->flavor, std::move(items));
}

const Value* Runtime::find(const Dict& dict, const Value& key) {
  meter.step(1 + dict.entries.size() / 16);
  if (key.is_string()) return dict.find(key.str());
  for (const auto& [name, value] : dict.entries) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

std::vector<Value> Runtime::items(const Value& iterable) {
  std::vector<Value> items;
  Account account(&meter);
  Cursor cursor(*this, iterable);
  for (Value item; cursor.next(item);) {
    account.take(sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

size_t Runtime::length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_string()) {
    const String& string = value.string();
    if (string.ascii) return string.text.size();
    meter.work(string.text.size());
    return unicode::length(string.text.str());
  }
  if (value.is_dict()) return value.dict().entries.size();
  const Sequence* sequence = value.sequence();
  if (!sequence) raise("object of type '{}' has no len()", type_name(value));
  return sequence->items.size();
}

Value Runtime::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) raise("{}", callee.undefined_message());
  Object* object = callee.object();
  if (!object) raise("'{}' object is not callable", type_name(callee));
  return object->call(*this, arguments);
}

void Runtime::check_depth(uint32_t depth) const {
  if (depth > max_depth_) raise("a value is nested deeper than {} levels", max_depth_);
}

int64_t to_index(const Value& value, std::string_view what) {
  if (value.is_undefined()) raise("{}", value.undefined_message());
  if (!value.is_integer()) raise("{} must be integers, not '{}'", what, type_name(value));
  return value.as_integer();
}

}  // namespace cera::text::jinja
