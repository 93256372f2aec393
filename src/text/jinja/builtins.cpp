#include "text/jinja/builtins.h"

#include <algorithm>

namespace cera::text::jinja {
namespace {

/// A builtin as a value: `text.strip` without the call, or a global function.
class Callable final : public Object {
 public:
  Callable(Value self, const Builtin& builtin) : self_(std::move(self)), builtin_(&builtin) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  uint32_t depth() const override { return self_.depth() + 1; }
  Value call(Runtime& runtime, const Arguments& arguments) override {
    return apply(runtime, *builtin_, self_, arguments);
  }
  std::string repr(Runtime&, uint32_t) override {
    return fmt::format("<built-in {}>", builtin_->name);
  }

 private:
  Value self_;
  const Builtin* builtin_;
};

/// The next word of a signature, which is shortened by it.
std::string_view next_name(std::string_view& names) {
  names.remove_prefix(std::min(names.find_first_not_of(' '), names.size()));
  const std::string_view name = names.substr(0, names.find(' '));
  names.remove_prefix(name.size());
  return name;
}

}  // namespace

Bound::Bound(const Builtin& builtin, const Value& subject, const Arguments& arguments)
    : builtin_(&builtin), raw_(&arguments) {
  values_[0] = &subject;
  if (builtin.parameters == "*") return;
  std::string_view names = builtin.parameters;
  size_t n = 1, used = 0;
  bool optional = false;
  for (std::string_view name = next_name(names); !name.empty(); name = next_name(names)) {
    if (name == "|") {
      optional = true;
      continue;
    }
    if (n - 1 < arguments.positional.size()) values_[n] = &arguments.positional[n - 1];
    for (const auto& [key, value] : arguments.keywords) {
      if (key != name) continue;
      if (values_[n]) raise("{}() got two values for '{}'", builtin.name, name);
      values_[n] = &value;
      ++used;
    }
    if (!values_[n] && !optional) raise("{}() needs the argument '{}'", builtin.name, name);
    ++n;
  }
  if (arguments.positional.size() > n - 1) {
    raise("{}() takes at most {} arguments, {} were given", builtin.name, n - 1,
          arguments.positional.size());
  }
  if (used < arguments.keywords.size()) {
    const auto unknown = std::find_if(
        arguments.keywords.begin(), arguments.keywords.end(), [&](const auto& keyword) {
          return std::none_of(values_.begin(), values_.end(),
                              [&](const Value* value) { return value == &keyword.second; });
        });
    raise("{}() got an unexpected argument '{}'", builtin.name, unknown->first);
  }
}

int64_t Bound::integer(size_t i) const {
  return to_index(at(i), name());
}

const String& Bound::string(size_t i) const {
  const Value& value = at(i);
  if (value.is_undefined()) raise("{}", value.undefined_message());
  if (!value.is_string()) raise("{}() needs a string, not '{}'", name(), type_name(value));
  return value.string();
}

std::string_view Bound::name() const {
  return builtin_->name;
}

Value apply(Runtime& runtime, const Builtin& builtin, const Value& subject,
            const Arguments& arguments) {
  runtime.meter.step();
  return builtin.run(runtime, Bound(builtin, subject, arguments));
}

Value bound_method(Runtime& runtime, const Value& self, const Builtin& method) {
  runtime.check_depth(self.depth() + 1);
  return runtime.object<Callable>(self, method);
}

Value function_value(Runtime& runtime, const Builtin& function) {
  return runtime.object<Callable>(Value(), function);
}

}  // namespace cera::text::jinja
