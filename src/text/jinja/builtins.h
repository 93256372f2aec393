#pragma once
// Filters, tests, methods and global functions share one shape: a row of a table with a name, a
// signature and a function. The signature binds positional and keyword arguments as Python does.

#include <array>
#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "text/jinja/runtime.h"

namespace cera::text::jinja {

struct Builtin;

/// Arguments after binding; the first is what a filter, test or method is applied to.
class Bound {
 public:
  Bound(const Builtin& builtin, const Value& subject, const Arguments& arguments);

  const Value& subject() const { return *values_[0]; }
  /// Null when it was left out.
  const Value* find(size_t i) const { return values_[i]; }
  const Value& at(size_t i) const { return *values_[i]; }  // a required one
  bool flag(size_t i, bool otherwise = false) const { return find(i) ? truth(at(i)) : otherwise; }
  int64_t integer(size_t i, int64_t otherwise) const { return find(i) ? integer(i) : otherwise; }
  int64_t integer(size_t i) const;
  /// A str; anything else fails.
  const String& string(size_t i) const;
  /// None and left out are the same.
  bool given(size_t i) const { return find(i) && !at(i).is_none(); }
  /// All arguments as they were passed, without the subject (for functions with a free signature).
  const Arguments& raw() const { return *raw_; }
  std::string_view name() const;

 private:
  static constexpr size_t kMaxParameters = 7;
  const Builtin* builtin_;
  const Arguments* raw_;
  std::array<const Value*, kMaxParameters> values_{};
};

struct Builtin {
  std::string_view name;
  /// Parameter names after the subject, separated by blanks, optional ones after '|'; "*" takes
  /// anything.
  std::string_view parameters;
  /// Null: known, but forbidden (it would change its object).
  Value (*run)(Runtime&, const Bound&);
};

/// Rows by name.
class BuiltinTable {
 public:
  BuiltinTable(std::initializer_list<Builtin> rows) {
    for (const Builtin& row : rows) rows_.emplace(row.name, row);
  }
  const Builtin* find(std::string_view name) const {
    const auto row = rows_.find(name);
    return row == rows_.end() ? nullptr : &row->second;
  }

 private:
  std::unordered_map<std::string_view, Builtin> rows_;
};

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
/// A method of this kind of value.
const Builtin* find_method(const Value& object, std::string_view name);
/// range, dict, namespace, ...; the subject is unused.
const Builtin* find_function(std::string_view name);

Value apply(Runtime& runtime, const Builtin& builtin, const Value& subject,
            const Arguments& arguments);
Value bound_method(Runtime& runtime, const Value& self, const Builtin& method);
Value function_value(Runtime& runtime, const Builtin& function);

}  // namespace cera::text::jinja
