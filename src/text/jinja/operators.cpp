// Arithmetic and comparison as Python defines them.

#include <cmath>

#include "base/checked.h"
#include "text/jinja/runtime.h"
#include "text/jinja/search.h"

namespace cera::text::jinja {
namespace {

constexpr size_t kBlockBytes = 4096;
constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void unsupported(BinaryOp op, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) raise("{}", value->undefined_message());
  }
  raise("unsupported operand types for {}: '{}' and '{}'", kSymbols[size_t(op)], type_name(left),
        type_name(right));
}

int64_t in_range(std::optional<int64_t> value) {
  if (!value) raise("the integer does not fit in 64 bits");
  return *value;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) return in_range(checked_mul<int64_t>(a, -1));
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 ? -1 : 1;
  for (; exponent > 0; --exponent) result = in_range(checked_mul(result, base));
  return result;
}

Value integers(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::add:
      return Value::integer(in_range(checked_add(a, b)));
    case BinaryOp::subtract: {
      int64_t difference;
      if (__builtin_sub_overflow(a, b, &difference)) in_range({});
      return Value::integer(difference);
    }
    case BinaryOp::multiply:
      return Value::integer(in_range(checked_mul(a, b)));
    case BinaryOp::divide:
      if (b == 0) raise("division by zero");
      return Value::real(double(a) / double(b));
    case BinaryOp::floor_divide:
      if (b == 0) raise("integer division or modulo by zero");
      return Value::integer(floor_divide(a, b));
    case BinaryOp::modulo:
      if (b == 0) raise("integer modulo by zero");
      return Value::integer(modulo(a, b));
    case BinaryOp::power:
      if (b < 0 && a == 0) raise("0 cannot be raised to a negative power");
      return b < 0 ? Value::real(std::pow(double(a), double(b))) : Value::integer(power(a, b));
  }
  return {};
}

Value reals(BinaryOp op, double a, double b) {
  const auto rest = [&] {  // has the sign of b
    double r = std::fmod(a, b);
    if (r != 0 && (b < 0) != (r < 0)) r += b;
    return r != 0 ? r : std::copysign(0.0, b);
  };
  if (b == 0 && op >= BinaryOp::divide && op <= BinaryOp::modulo) raise("float division by zero");
  switch (op) {
    case BinaryOp::add:
      return Value::real(a + b);
    case BinaryOp::subtract:
      return Value::real(a - b);
    case BinaryOp::multiply:
      return Value::real(a * b);
    case BinaryOp::divide:
      return Value::real(a / b);
    case BinaryOp::modulo:
      return Value::real(rest());
    case BinaryOp::floor_divide: {
      const double quotient = (a - rest()) / b;
      const double floor = std::floor(quotient);
      return Value::real(quotient - floor > 0.5 ? floor + 1 : floor);
    }
    case BinaryOp::power:
      if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
      if (a < 0 && std::floor(b) != b) raise("complex numbers are not supported");
      return Value::real(std::pow(a, b));
  }
  return {};
}

bool is_list(const Value& value, Sequence::Flavor flavor) {
  return value.sequence() && value.sequence()->flavor == flavor;
}

Value repeat(Runtime& runtime, const Value& what, int64_t times) {
  const auto n = uint64_t(std::max<int64_t>(times, 0));
  if (what.is_string()) {
    TextBuilder out(runtime.meter);
    const String& string = what.string();
    const std::optional<uint64_t> total = checked_mul<uint64_t>(n, string.text.size());
    if (!total || *total > runtime.meter.max_text_bytes) {
      raise("the text grows beyond {} bytes", runtime.meter.max_text_bytes);
    }
    SpanText block = string.text;  // several copies at once, where one is short
    uint64_t n_block = 1;
    for (; n_block * 2 <= n && block.size() * 2 <= kBlockBytes; n_block *= 2)
      block.append(SpanText(block));
    if (!block.empty()) {
      for (uint64_t i = 0; i < n / n_block; ++i) out.append(block);
      out.append(block, 0, n % n_block * string.text.size());
    }
    return std::move(out).finish(string.markup);
  }
  const Sequence& sequence = *what.sequence();
  std::vector<Value> items;
  Account account(&runtime.meter);
  for (uint64_t i = 0; i < n && !sequence.items.empty(); ++i) {
    account.take(sequence.items.size() * sizeof(Value));
    runtime.meter.step(sequence.items.size());
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return runtime.sequence(sequence.flavor, std::move(items));
}

bool repeatable(const Value& value) {
  return value.is_string() || is_list(value, Sequence::Flavor::list) ||
         is_list(value, Sequence::Flavor::tuple);
}

Value concatenate(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_string()) {
    const bool markup = left.string().markup || right.string().markup;
    const Value a = markup ? runtime.escaped(left) : left;
    const Value b = markup ? runtime.escaped(right) : right;
    TextBuilder out(runtime.meter);
    out.append(a.string().text);
    out.append(b.string().text);
    return std::move(out).finish(markup);
  }
  const auto& a = left.sequence()->items;
  const auto& b = right.sequence()->items;
  runtime.meter.step(a.size() + b.size());
  std::vector<Value> items;
  items.reserve(a.size() + b.size());
  items.insert(items.end(), a.begin(), a.end());
  items.insert(items.end(), b.begin(), b.end());
  return runtime.sequence(left.sequence()->flavor, std::move(items));
}

/// -1, 0, 1; 2 when unordered (NaN). Both are numbers.
int order(const Value& left, const Value& right) {
  const auto three_way = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; };
  if (left.is_integer() && right.is_integer())
    return three_way(left.as_integer(), right.as_integer());
  if (left.kind() == right.kind() && left.kind() == Value::Kind::big_integer) {
    return three_way(left.as_big_integer(), right.as_big_integer());
  }
  return three_way(left.as_real(), right.as_real());
}

bool equal_items(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].same(b[i]) && !runtime.equal(a[i], b[i])) return false;
  }
  return true;
}

bool holds(CompareOp op, int order) {
  switch (op) {
    case CompareOp::less:
      return order == -1;
    case CompareOp::less_equal:
      return order == -1 || order == 0;
    case CompareOp::greater:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

bool ordered(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return holds(op, order(left, right));
  if (left.is_string() && right.is_string()) {
    runtime.meter.work(std::min(left.str().size(), right.str().size()));
    const int order = left.str().compare(right.str());  // UTF-8 sorts like code points
    return holds(op, order < 0 ? -1 : order > 0 ? 1 : 0);
  }
  for (const Sequence::Flavor flavor : {Sequence::Flavor::list, Sequence::Flavor::tuple}) {
    if (!is_list(left, flavor) || !is_list(right, flavor)) continue;
    const auto& a = left.sequence()->items;
    const auto& b = right.sequence()->items;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      runtime.meter.step();
      if (!a[i].same(b[i]) && !runtime.equal(a[i], b[i])) return ordered(runtime, op, a[i], b[i]);
    }
    return holds(op, a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0);
  }
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) raise("{}", value->undefined_message());
  }
  constexpr std::string_view kNames[] = {"==", "!=", "<", "<=", ">", ">="};
  raise("'{}' not supported between '{}' and '{}'", kNames[size_t(op)], type_name(left),
        type_name(right));
}

}  // namespace

Value Runtime::binary(BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::modulo && left.is_string()) return percent_format(left, right);
  if (left.is_integer() && right.is_integer())
    return integers(op, left.as_integer(), right.as_integer());
  if (left.is_number() && right.is_number()) {
    if (!left.is_real() && !right.is_real()) in_range({});  // beyond 64 bits
    return reals(op, left.as_real(), right.as_real());
  }
  if (op == BinaryOp::add) {
    const bool lists =
        is_list(left, Sequence::Flavor::list) && is_list(right, Sequence::Flavor::list);
    const bool tuples =
        is_list(left, Sequence::Flavor::tuple) && is_list(right, Sequence::Flavor::tuple);
    if (lists || tuples || (left.is_string() && right.is_string()))
      return concatenate(*this, left, right);
  }
  if (op == BinaryOp::multiply) {
    if (repeatable(left) && right.is_integer()) return repeat(*this, left, right.as_integer());
    if (repeatable(right) && left.is_integer()) return repeat(*this, right, left.as_integer());
  }
  unsupported(op, left, right);
}

Value Runtime::negate(const Value& value) {
  if (value.is_real()) return Value::real(-value.as_real());
  return binary(BinaryOp::subtract, Value::integer(0), value);
}

Value Runtime::plus(const Value& value) {
  return value.is_real() || value.kind() == Value::Kind::big_integer
             ? value
             : binary(BinaryOp::add, Value::integer(0), value);
}

bool Runtime::equal(const Value& left, const Value& right) {
  meter.step();
  if (left.is_number() && right.is_number()) return order(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Value::Kind::string:
      meter.work(std::min(left.str().size(), right.str().size()));
      return left.str() == right.str();
    case Value::Kind::sequence: {
      const Sequence &a = *left.sequence(), &b = *right.sequence();
      return a.flavor == b.flavor && equal_items(*this, a.items, b.items);
    }
    case Value::Kind::dict: {
      if (left.dict().entries.size() != right.dict().entries.size()) return false;
      for (const auto& [key, value] : left.dict().entries) {
        const Value* other = find(right.dict(), key);
        if (!other || (!value.same(*other) && !equal(value, *other))) return false;
      }
      return true;
    }
    default:
      return left.same(right);  // undefined, none, objects
  }
}

bool Runtime::compare(CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::equal:
      return equal(left, right);
    case CompareOp::not_equal:
      return !equal(left, right);
    case CompareOp::in:
      return contains(right, left);
    case CompareOp::not_in:
      return !contains(right, left);
    default:
      return ordered(*this, op, left, right);
  }
}

bool Runtime::contains(const Value& container, const Value& value) {
  if (container.is_string()) {
    if (value.is_undefined()) raise("{}", value.undefined_message());
    if (!value.is_string()) raise("'in <string>' requires a string, not '{}'", type_name(value));
    meter.work(container.str().size() + value.str().size());
    return value.str().empty() || Searcher(value.str()).find(container.str()) != std::string::npos;
  }
  if (container.is_dict()) {
    if (!hashable(value)) raise("unhashable type: '{}'", type_name(value));
    return find(container.dict(), value) != nullptr;
  }
  Cursor cursor(*this, container);
  for (Value item; cursor.next(item);) {
    if (item.same(value) || equal(item, value)) return true;
  }
  return false;
}

}  // namespace cera::text::jinja
