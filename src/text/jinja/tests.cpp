// The tests of Jinja: `value is name(arguments)`.

#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

using Kind = Value::Kind;

template <Kind... kinds>
Value is_kind(Runtime&, const Bound& args) {
  return Value::boolean(((args.subject().kind() == kinds) || ...));
}

template <bool wanted>
Value is_defined(Runtime&, const Bound& args) {
  return Value::boolean(args.subject().is_undefined() != wanted);
}

template <bool wanted>
Value is_truth_value(Runtime&, const Bound& args) {
  return Value::boolean(args.subject().is_boolean() && args.subject().as_boolean() == wanted);
}

template <CompareOp op>
Value compares(Runtime& runtime, const Bound& args) {
  return Value::boolean(runtime.compare(op, args.subject(), args.at(1)));
}

template <int64_t rest>
Value leaves(Runtime& runtime, const Bound& args) {
  const Value modulo = runtime.binary(BinaryOp::modulo, args.subject(), Value::integer(2));
  return Value::boolean(runtime.equal(modulo, Value::integer(rest)));
}

Value divisible_by(Runtime& runtime, const Bound& args) {  // num
  const Value modulo = runtime.binary(BinaryOp::modulo, args.subject(), args.at(1));
  return Value::boolean(runtime.equal(modulo, Value::integer(0)));
}

Value same_as(Runtime&, const Bound& args) {
  return Value::boolean(args.subject().same(args.at(1)));
}

Value is_iterable(Runtime&, const Bound& args) {
  const Value& value = args.subject();
  return Value::boolean(value.is_undefined() || value.is_string() || value.is_dict() ||
                        value.sequence() || value.object_as<Iterator>());
}

Value is_sequence(Runtime&, const Bound& args) {
  const Value& value = args.subject();
  const Sequence* sequence = value.sequence();
  const bool items = sequence && sequence->flavor <= Sequence::Flavor::range;
  return Value::boolean(value.is_undefined() || value.is_string() || value.is_dict() || items);
}

Value is_callable(Runtime&, const Bound& args) {
  const Object* object = args.subject().object();
  return Value::boolean(args.subject().is_undefined() || (object && object->callable()));
}

Value is_escaped(Runtime&, const Bound& args) {
  return Value::boolean(args.subject().is_string() && args.subject().string().markup);
}

/// All cased letters are of this case, and there is one.
template <bool upper>
Value has_case(Runtime& runtime, const Bound& args) {
  const Value shown = runtime.to_string(args.subject());
  const std::string& text = shown.str();
  runtime.meter.step(shown.string().ascii ? 1 + text.size() / 64 : text.size());
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint c = unicode::decode(text, at);
    if (upper ? unicode::is_lower(c.value) : unicode::is_upper(c.value))
      return Value::boolean(false);
    cased = cased || unicode::is_cased(c.value);
    at += c.n_bytes;
  }
  return Value::boolean(cased);
}

template <const Builtin* (*find)(std::string_view)>
Value exists(Runtime&, const Bound& args) {
  return Value::boolean(args.subject().is_string() && find(args.subject().str()) != nullptr);
}

}  // namespace

const Builtin* find_test(std::string_view name) {
  static const BuiltinTable table{
      {"!=", "other", compares<CompareOp::not_equal>},
      {"<", "other", compares<CompareOp::less>},
      {"<=", "other", compares<CompareOp::less_equal>},
      {"==", "other", compares<CompareOp::equal>},
      {">", "other", compares<CompareOp::greater>},
      {">=", "other", compares<CompareOp::greater_equal>},
      {"boolean", "", is_kind<Kind::boolean>},
      {"callable", "", is_callable},
      {"defined", "", is_defined<true>},
      {"divisibleby", "num", divisible_by},
      {"eq", "other", compares<CompareOp::equal>},
      {"equalto", "other", compares<CompareOp::equal>},
      {"escaped", "", is_escaped},
      {"even", "", leaves<0>},
      {"false", "", is_truth_value<false>},
      {"filter", "", exists<find_filter>},
      {"float", "", is_kind<Kind::real>},
      {"ge", "other", compares<CompareOp::greater_equal>},
      {"greaterthan", "other", compares<CompareOp::greater>},
      {"gt", "other", compares<CompareOp::greater>},
      {"in", "seq", compares<CompareOp::in>},
      {"integer", "", is_kind<Kind::integer, Kind::big_integer>},
      {"iterable", "", is_iterable},
      {"le", "other", compares<CompareOp::less_equal>},
      {"lessthan", "other", compares<CompareOp::less>},
      {"lower", "", has_case<false>},
      {"lt", "other", compares<CompareOp::less>},
      {"mapping", "", is_kind<Kind::dict>},
      {"ne", "other", compares<CompareOp::not_equal>},
      {"none", "", is_kind<Kind::none>},
      {"number", "", is_kind<Kind::boolean, Kind::integer, Kind::big_integer, Kind::real>},
      {"odd", "", leaves<1>},
      {"sameas", "other", same_as},
      {"sequence", "", is_sequence},
      {"string", "", is_kind<Kind::string>},
      {"test", "", exists<find_test>},
      {"true", "", is_truth_value<true>},
      {"undefined", "", is_defined<false>},
      {"upper", "", has_case<true>},
  };
  return table.find(name);
}

}  // namespace cera::text::jinja
