// Global functions: range, dict, namespace, joiner, cycler, and transformers' raise_exception,
// strftime_now.

#include <ctime>

#include "text/jinja/builtins.h"

namespace cera::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as Jinja's sandbox

Value range(Runtime& runtime, const Bound& args) {
  const std::vector<Value>& given = args.raw().positional;
  if (given.empty() || given.size() > 3 || !args.raw().keywords.empty())
    raise("range() takes 1 to 3 integers");
  const auto integer = [&](size_t i) { return to_index(given[i], "range() arguments"); };
  const int64_t start = given.size() > 1 ? integer(0) : 0;
  const int64_t stop = integer(given.size() > 1 ? 1 : 0);
  const int64_t step = given.size() > 2 ? integer(2) : 1;
  if (step == 0) raise("range() step must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (int64_t(items.size()) == kMaxRange)
      raise("a range may not have more than {} items", kMaxRange);
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return runtime.sequence(Sequence::Flavor::range, std::move(items));
}

/// dict(mapping or pairs, **keywords)
Runtime::Entries entries(Runtime& runtime, const Bound& args) {
  const Arguments& raw = args.raw();
  if (raw.positional.size() > 1) raise("{}() takes at most one positional argument", args.name());
  Runtime::Entries made;
  if (!raw.positional.empty() && raw.positional[0].is_dict()) {
    made = raw.positional[0].dict().entries;
  } else if (!raw.positional.empty()) {
    for (const Value& row : runtime.items(raw.positional[0])) {
      const std::vector<Value> pair = runtime.items(row);
      if (pair.size() != 2) raise("{}() needs pairs, not {} values", args.name(), pair.size());
      runtime.set(made, pair[0], pair[1]);
    }
  }
  for (const auto& [key, value] : raw.keywords) {
    runtime.set(made, runtime.text(key, raw.keyword_origin), value);
  }
  return made;
}

Value dict(Runtime& runtime, const Bound& args) {
  return runtime.dict(entries(runtime, args));
}

Value make_namespace(Runtime& runtime, const Bound& args) {
  return runtime.make_namespace(entries(runtime, args));
}

class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  uint32_t depth() const override { return separator_.depth() + 1; }
  Value call(Runtime& runtime, const Arguments& arguments) override {
    if (!arguments.positional.empty() || !arguments.keywords.empty())
      raise("a joiner takes no arguments");
    return std::exchange(used_, true) ? separator_ : runtime.text("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value joiner(Runtime& runtime, const Bound& args) {  // | sep
  const Value separator = args.find(1) ? args.at(1) : runtime.text(", ");
  runtime.check_depth(separator.depth() + 1);
  return runtime.object<Joiner>(separator);
}

class Cycler final : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  uint32_t depth() const override { return items_.depth() + 1; }
  const Builtin* method(std::string_view name) const override {
    static const BuiltinTable table{{"next", "", next}, {"reset", "", reset}};
    return table.find(name);
  }
  Value attribute(Runtime&, std::string_view name) override {
    return name == "current" ? items_.sequence()->items[at_] : Value();
  }

 private:
  static Value next(Runtime&, const Bound& args) {
    auto* self = args.subject().object_as<Cycler>();
    const auto& items = self->items_.sequence()->items;
    const size_t at = self->at_;
    self->at_ = (at + 1) % items.size();
    return items[at];
  }
  static Value reset(Runtime&, const Bound& args) {
    args.subject().object_as<Cycler>()->at_ = 0;
    return Value::none();
  }
  Value items_;  // a tuple
  size_t at_ = 0;
};

Value cycler(Runtime& runtime, const Bound& args) {
  if (args.raw().positional.empty() || !args.raw().keywords.empty())
    raise("a cycler needs at least one item");
  const Value items = runtime.tuple(args.raw().positional);
  runtime.check_depth(items.depth() + 1);
  return runtime.object<Cycler>(items);
}

/// The template refuses its input: its message is the error.
Value raise_exception(Runtime& runtime, const Bound& args) {  // message
  throw Failure{ErrorCode::invalid_argument, runtime.to_text(args.at(1)).str(), {}};
}

Value strftime_now(Runtime& runtime, const Bound& args) {  // format
  const String& format = args.string(1);
  const std::string& text = format.text.str();
  if (text.empty()) return args.at(1);
  if (text.size() > 1000) raise("the format of strftime_now is too long");
  const time_t now = runtime.now_unix_s ? time_t(*runtime.now_unix_s) : std::time(nullptr);
  std::tm local{};
  if (!localtime_r(&now, &local)) raise("the clock is out of range");
  // Python's local time has no zone and fills in microseconds itself.
  std::string pattern;
  for (size_t i = 0; i < text.size(); ++i) {
    const char code = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : 0;
    if (code == 'f') pattern += "000000";
    if (code == '%') pattern += "%%";
    if (code == 'f' || code == '%' || code == 'z' || code == 'Z')
      ++i;
    else
      pattern += text[i];
  }
  std::string out(pattern.size() * 32 + 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), pattern.c_str(), &local));
  const auto& runs = format.text.runs();
  return runtime.text(out, runs.size() == 1 ? runs[0].origin : Origin::content);
}

}  // namespace

const Builtin* find_function(std::string_view name) {
  static const BuiltinTable table{
      {"cycler", "*", cycler},
      {"dict", "*", dict},
      {"joiner", "| sep", joiner},
      {"namespace", "*", make_namespace},
      {"raise_exception", "message", raise_exception},
      {"range", "*", range},
      {"strftime_now", "format", strftime_now},
  };
  return table.find(name);
}

}  // namespace cera::text::jinja
