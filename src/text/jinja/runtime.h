#pragma once
// What the language can do with values: make them (counted), look into them, compute, compare,
// print. One Runtime per rendering; it knows nothing of syntax trees. Everything fails by throwing
// Failure.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace cera::text::jinja {

enum class BinaryOp : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOp : uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

/// Text under construction, counted while it grows.
class TextBuilder {
 public:
  explicit TextBuilder(Meter& meter) : meter_(&meter), account_(&meter) {}
  void append(std::string_view text, Origin origin = Origin::template_text);
  void append(const SpanText& text);
  void append(const SpanText& text, size_t position, size_t n_bytes);
  const SpanText& text() const { return text_; }
  SpanText take() && { return std::move(text_); }
  Value finish(bool markup = false) &&;

 private:
  void reserve(size_t n_bytes);
  Meter* meter_;
  Account account_;
  SpanText text_;
};

class Runtime {
 public:
  using Entries = std::vector<std::pair<Value, Value>>;

  Runtime(uint64_t max_steps, size_t max_bytes, size_t max_text_bytes, uint32_t max_depth)
      : meter(max_steps, max_bytes, max_text_bytes), max_depth_(max_depth) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Meter meter;
  std::optional<int64_t> now_unix_s;  // for strftime_now; empty: the system's clock

  // Making values.
  Value string(SpanText text, bool markup = false);
  Value text(std::string_view text, Origin origin = Origin::template_text);
  Value sequence(Sequence::Flavor flavor, std::vector<Value> items);
  Value list(std::vector<Value> items) {
    return sequence(Sequence::Flavor::list, std::move(items));
  }
  Value tuple(std::vector<Value> items) {
    return sequence(Sequence::Flavor::tuple, std::move(items));
  }
  Value dict(Entries entries);  // keys must be distinct
  Value iterator(std::vector<Value> items);
  Value make_namespace(const Entries& entries);
  template <class T, class... Args>
  Value object(Args&&... args) {
    meter.step();
    return Value(
        std::static_pointer_cast<Object>(std::make_shared<T>(std::forward<Args>(args)...)));
  }
  /// Adds or replaces; fails on a key that cannot be hashed.
  void set(Entries& entries, Value key, Value value);

  // Looking into them.
  /// `object.name` and `object[key]` as Jinja resolves them: undefined when there is no such thing.
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  /// Bounds that were left out are none.
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  const Value* find(const Dict& dict, const Value& key);
  std::vector<Value> items(const Value& iterable);  // list(iterable)
  size_t length(const Value& value);                // len(value), in code points for text
  Value call(const Value& callee, const Arguments& arguments);

  // Computing (operators.cpp).
  Value binary(BinaryOp op, const Value& left, const Value& right);
  Value negate(const Value& value);
  Value plus(const Value& value);
  bool compare(CompareOp op, const Value& left, const Value& right);
  bool equal(const Value& left, const Value& right);
  bool contains(const Value& container, const Value& value);

  // Printing (python_format.cpp).
  void append_str(TextBuilder& out, const Value& value);
  void append_repr(TextBuilder& out, const Value& value, uint32_t depth = 0);
  /// str(value); a string stays as it is.
  Value to_string(const Value& value);
  SpanText to_text(const Value& value);
  /// HTML-escaped, unless it is markup already.
  Value escaped(const Value& value);
  Value percent_format(const Value& format, const Value& arguments);
  Value brace_format(const Value& format, const Arguments& arguments);

  /// A recursion guard for values that reach themselves through a namespace.
  void check_depth(uint32_t depth) const;

 private:
  Value undefined_attribute(const Value& object, std::string_view name);
  Value sequence_item(const Value& object, int64_t index);
  uint32_t max_depth_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;  // emptied at the end: they may form cycles
};

/// An int64 from an int or bool; fails naming `what`.
int64_t to_index(const Value& value, std::string_view what);

/// float.__repr__
std::string float_repr(double value);

/// json.dumps(value, ...) as transformers' tojson filter calls it (json_output.cpp).
struct JsonOptions {
  bool ensure_ascii = false;
  std::optional<SpanText> indent;                           // one level of indentation
  std::optional<std::pair<SpanText, SpanText>> separators;  // between items, after a key
  bool sort_keys = false;
};
Value to_json(Runtime& runtime, const Value& value, const JsonOptions& options);

}  // namespace cera::text::jinja
