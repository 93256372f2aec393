#include "text/jinja/value.h"

#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {

Value Value::undefined(std::string message) {
  return Value(Storage(std::make_shared<const UndefinedInfo>(UndefinedInfo{std::move(message)})));
}

double Value::as_real() const {
  switch (kind()) {
    case Kind::real:
      return std::get<double>(storage_);
    case Kind::big_integer:
      return double(as_big_integer());
    default:
      return double(as_integer());
  }
}

const std::string& Value::str() const {
  return string().text.str();
}

const Sequence* Value::sequence() const {
  const auto* pointer = std::get_if<std::shared_ptr<const Sequence>>(&storage_);
  return pointer ? pointer->get() : nullptr;
}

Object* Value::object() const {
  const auto* pointer = std::get_if<std::shared_ptr<Object>>(&storage_);
  return pointer ? pointer->get() : nullptr;
}

std::string Value::undefined_message() const {
  const auto& info = std::get<0>(storage_);
  return info ? info->message : "the value is undefined";
}

bool Value::same(const Value& other) const {
  if (kind() != other.kind()) return false;
  if (is_undefined() || is_none()) return true;
  return storage_ == other.storage_;
}

uint32_t Value::depth() const {
  if (const Sequence* items = sequence()) return items->depth;
  if (Object* held = object()) return held->depth();
  return is_dict() ? dict().depth : 0;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.str() == key) return &value;
  }
  return nullptr;
}

Value Object::call(Runtime&, const Arguments&) {
  raise("'{}' object is not callable", type_name());
}

std::string Object::repr(Runtime&, uint32_t) {
  return fmt::format("<{} object>", type_name());
}

Value Namespace::attribute(Runtime& runtime, std::string_view name) {
  runtime.meter.step(1 + attributes_.size() / 16);
  for (const auto& [key, value] : attributes_) {
    if (key == name) return value;
  }
  return {};
}

std::string Namespace::repr(Runtime& runtime, uint32_t depth) {
  runtime.check_depth(depth);
  std::string out = "<Namespace {";
  const char* separator = "";
  for (const auto& [key, value] : attributes_) {
    TextBuilder text(runtime.meter);
    runtime.append_repr(text, value, depth + 1);
    out += fmt::format("{}'{}': {}", separator, key, text.text().str());
    separator = ", ";
  }
  return out + "}>";
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, old] : attributes_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes_.emplace_back(name, std::move(value));
}

Cursor::Cursor(Runtime& runtime, Value source) : runtime_(&runtime), source_(std::move(source)) {
  const bool iterable = source_.is_undefined() || source_.is_string() || source_.is_dict() ||
                        source_.sequence() || source_.object_as<Iterator>();
  if (!iterable) raise("'{}' object is not iterable", type_name(source_));
}

bool Cursor::next(Value& out) {
  runtime_->meter.step();
  if (const Sequence* sequence = source_.sequence()) {
    if (at_ >= sequence->items.size()) return false;
    out = sequence->items[at_++];
    return true;
  }
  if (source_.is_dict()) {
    if (at_ >= source_.dict().entries.size()) return false;
    out = source_.dict().entries[at_++].first;
    return true;
  }
  if (source_.is_string()) {
    const SpanText& text = source_.string().text;
    if (at_ >= text.size()) return false;
    const size_t n = unicode::decode(text.str(), at_).n_bytes;
    out = runtime_->string(text.substr(at_, n));
    at_ += n;
    return true;
  }
  Iterator* iterator = source_.object_as<Iterator>();
  return iterator && iterator->next(out);
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::undefined:
      return "Undefined";
    case Value::Kind::none:
      return "NoneType";
    case Value::Kind::boolean:
      return "bool";
    case Value::Kind::integer:
    case Value::Kind::big_integer:
      return "int";
    case Value::Kind::real:
      return "float";
    case Value::Kind::string:
      return value.string().markup ? "Markup" : "str";
    case Value::Kind::dict:
      return "dict";
    case Value::Kind::object:
      return value.object()->type_name();
    case Value::Kind::sequence:
      break;
  }
  switch (value.sequence()->flavor) {
    case Sequence::Flavor::list:
      return "list";
    case Sequence::Flavor::tuple:
    case Sequence::Flavor::group:
      return "tuple";
    case Sequence::Flavor::range:
      return "range";
    case Sequence::Flavor::keys:
      return "dict_keys";
    case Sequence::Flavor::values:
      return "dict_values";
    case Sequence::Flavor::items:
      return "dict_items";
  }
  return "object";
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::undefined:
    case Value::Kind::none:
      return false;
    case Value::Kind::boolean:
    case Value::Kind::integer:
      return value.as_integer() != 0;
    case Value::Kind::real:
      return value.as_real() != 0;
    case Value::Kind::string:
      return !value.str().empty();
    case Value::Kind::sequence:
      return !value.sequence()->items.empty();
    case Value::Kind::dict:
      return !value.dict().entries.empty();
    case Value::Kind::big_integer:
    case Value::Kind::object:
      return true;
  }
  return true;
}

bool hashable(const Value& value) {
  if (value.is_dict()) return false;
  const Sequence* sequence = value.sequence();
  return !sequence || sequence->hashable;
}

}  // namespace cera::text::jinja
