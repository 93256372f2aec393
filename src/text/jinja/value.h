#pragma once
// Values of the template language: Python's, as far as templates can tell. Immutable, shared by
// reference, except for Objects (namespaces, loops, iterators), which live during one rendering
// only. Containers know their depth, so that recursion over a value is bounded.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/meter.h"
#include "text/span_text.h"

namespace cera::text::jinja {

class Runtime;
class Object;
struct Builtin;
struct Arguments;
struct Dict;
struct Sequence;
struct String;
struct UndefinedInfo;

class Value {
 public:
  /// In the order of the variant below. big_integer is for inputs above 2^63 - 1: it prints and
  /// compares.
  enum class Kind : uint8_t {
    undefined,
    none,
    boolean,
    integer,
    big_integer,
    real,
    string,
    sequence,
    dict,
    object
  };

  Value() = default;  // undefined, without an explanation
  static Value none() { return Value(Storage(std::in_place_index<1>)); }
  static Value boolean(bool value) { return Value(Storage(std::in_place_index<2>, value)); }
  static Value integer(int64_t value) { return Value(Storage(std::in_place_index<3>, value)); }
  static Value big_integer(uint64_t value) { return Value(Storage(std::in_place_index<4>, value)); }
  static Value real(double value) { return Value(Storage(std::in_place_index<5>, value)); }
  static Value undefined(std::string message);

  explicit Value(std::shared_ptr<const String> value) : storage_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Sequence> value) : storage_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Dict> value) : storage_(std::move(value)) {}
  explicit Value(std::shared_ptr<Object> value) : storage_(std::move(value)) {}

  Kind kind() const { return Kind(storage_.index()); }
  bool is_undefined() const { return kind() == Kind::undefined; }
  bool is_none() const { return kind() == Kind::none; }
  bool is_boolean() const { return kind() == Kind::boolean; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_dict() const { return kind() == Kind::dict; }
  bool is_real() const { return kind() == Kind::real; }
  /// An int64 or a bool, which Python counts as one.
  bool is_integer() const { return kind() == Kind::integer || kind() == Kind::boolean; }
  bool is_number() const { return kind() >= Kind::boolean && kind() <= Kind::real; }

  bool as_boolean() const { return std::get<bool>(storage_); }
  int64_t as_integer() const {  // of is_integer()
    return is_boolean() ? int64_t(as_boolean()) : std::get<int64_t>(storage_);
  }
  uint64_t as_big_integer() const { return std::get<uint64_t>(storage_); }
  double as_real() const;  // of is_number()
  const String& string() const { return *std::get<std::shared_ptr<const String>>(storage_); }
  const std::string& str() const;  // of is_string()
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(storage_); }
  /// Null when this is something else.
  const Sequence* sequence() const;
  Object* object() const;
  template <class T>
  T* object_as() const {
    return dynamic_cast<T*>(object());
  }
  /// What using an undefined value fails with.
  std::string undefined_message() const;
  /// The same object (`is` in Python).
  bool same(const Value& other) const;
  /// Nesting of containers: 0 for plain data.
  uint32_t depth() const;

 private:
  using Storage =
      std::variant<std::shared_ptr<const UndefinedInfo>, std::monostate, bool, int64_t, uint64_t,
                   double, std::shared_ptr<const String>, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Object>>;
  explicit Value(Storage storage) : storage_(std::move(storage)) {}
  Storage storage_;
};

struct UndefinedInfo {
  std::string message;
};

struct String {
  SpanText text;
  Account account;
  bool ascii;
  bool markup =
      false;  // went through `safe` or `escape`: joining it with plain text escapes the latter
};

struct Sequence {
  /// group: a tuple that `groupby` made, with the attributes grouper and list. The last three: dict
  /// views.
  enum class Flavor : uint8_t { list, tuple, group, range, keys, values, items };
  std::vector<Value> items;
  Flavor flavor;
  uint32_t depth;
  bool hashable;  // a tuple of hashable items
  Account account;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion, keys distinct
  uint32_t depth;
  Account account;
  /// By a string key; null when missing.
  const Value* find(std::string_view key) const;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
  Origin keyword_origin =
      Origin::template_text;  // content when any of the names came with **values
};

/// Anything that is neither data nor undefined: functions, macros, methods, loops, namespaces,
/// iterators.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  /// Null when there is no such method.
  virtual const Builtin* method(std::string_view) const { return nullptr; }
  /// Undefined without a message when there is no such attribute.
  virtual Value attribute(Runtime&, std::string_view) { return {}; }
  virtual bool callable() const { return false; }
  /// Nesting of what it holds; 0 when that goes away with the loop or the rendering.
  virtual uint32_t depth() const { return 0; }
  virtual Value call(Runtime&, const Arguments&);  // fails unless overridden
  /// What printing shows; the default is "<type_name object>".
  virtual std::string repr(Runtime&, uint32_t depth);
};

/// A generator of Python: its items can be taken once.
class Iterator final : public Object {
 public:
  Iterator(std::vector<Value> items, uint32_t depth, Account account)
      : items_(std::move(items)), depth_(depth), account_(std::move(account)) {}
  std::string_view type_name() const override { return "generator"; }
  uint32_t depth() const override { return depth_; }
  bool next(Value& out) {
    if (position_ >= items_.size()) return false;
    out = items_[position_++];
    return true;
  }

 private:
  std::vector<Value> items_;
  size_t position_ = 0;
  uint32_t depth_;
  Account account_;
};

/// Names and values that a template may change.
class Namespace final : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  Value attribute(Runtime&, std::string_view name) override;
  std::string repr(Runtime&, uint32_t depth) override;
  void set(std::string_view name, Value value);
  size_t size() const { return attributes_.size(); }
  void clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

/// Walks over what a `for` loop can: items, keys, code points.
class Cursor {
 public:
  Cursor(Runtime& runtime, Value source);
  bool next(Value& out);

 private:
  Runtime* runtime_;
  Value source_;
  size_t at_ = 0;
};

/// Python's name of the type: 'str', 'dict', ...
std::string_view type_name(const Value& value);
bool truth(const Value& value);
/// As a dictionary key: false for lists, dicts and tuples that hold them.
bool hashable(const Value& value);

}  // namespace cera::text::jinja
