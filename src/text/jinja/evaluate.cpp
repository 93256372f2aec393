#include "text/jinja/evaluate.h"

#include <utility>

#include "text/jinja/loop.h"

namespace cera::text::jinja {

/// A macro, or the block that a call block hands to one as `caller`.
class Macro final : public Object {
 public:
  Macro(Evaluator& evaluator, const MacroCode& code, const std::shared_ptr<Frame>& frame)
      : evaluator_(evaluator), code_(code), frame_(frame) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Runtime&, const Arguments& arguments) override {
    std::shared_ptr<Frame> outer = frame_.lock();
    if (!outer)
      raise("the macro '{}' was called after the scope that defines it had ended", code_.name);
    return evaluator_.call_macro(code_, std::move(outer), arguments);
  }
  Value attribute(Runtime& runtime, std::string_view name) override {
    if (name == "name") return runtime.text(code_.name);
    if (name == "caller") return Value::boolean(code_.uses_caller);
    return {};
  }
  std::string repr(Runtime&, uint32_t) override { return fmt::format("<Macro '{}'>", code_.name); }

 private:
  Evaluator& evaluator_;
  const MacroCode& code_;
  std::weak_ptr<Frame> frame_;  // a frame holds its macros, not the other way round
};

void Frame::set(NameId name, Value value) {
  for (auto& [known, old] : variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

/// Counts the recursion while it lives.
class Evaluator::Level {
 public:
  explicit Level(Evaluator& evaluator) : level_(evaluator.level_) {
    if (level_ >= evaluator.max_levels_) {
      raise("the evaluation is nested deeper than {} levels", evaluator.max_levels_);
    }
    ++level_;
  }
  ~Level() { --level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  uint32_t& level_;
};

/// Collects the output of a block while it lives.
class Evaluator::Redirect {
 public:
  explicit Redirect(Evaluator& evaluator)
      : evaluator_(evaluator),
        text_(evaluator.runtime_.meter),
        out_(std::exchange(evaluator.out_, &text_)) {}
  ~Redirect() { evaluator_.out_ = out_; }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;
  Value finish() { return std::move(text_).finish(); }

 private:
  Evaluator& evaluator_;
  TextBuilder text_;
  TextBuilder* out_;
};

/// Makes a frame the current one while it lives.
class Evaluator::Enter {
 public:
  Enter(Evaluator& evaluator, std::shared_ptr<Frame> frame)
      : evaluator_(evaluator), before_(std::exchange(evaluator.frame_, std::move(frame))) {}
  ~Enter() { evaluator_.frame_ = std::move(before_); }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Frame> before_;
};

Evaluator::Evaluator(const Template& tree, Runtime& runtime, uint32_t max_levels,
                     const Inputs& inputs)
    : tree_(tree), runtime_(runtime), max_levels_(max_levels), globals_(tree.names.size()) {
  for (size_t i = 0; i < globals_.size(); ++i) {
    if (const auto input = inputs.find(tree.names[i]); input != inputs.end()) {
      globals_[i] = input->second;
    } else if (const Builtin* function = find_function(tree.names[i])) {
      globals_[i] = function_value(runtime, *function);
    }
  }
}

SpanText Evaluator::run() {
  TextBuilder text(runtime_.meter);
  out_ = &text;
  frame_ = open_frame(tree_.body, nullptr);
  execute(tree_.body.statements);
  return std::move(text).take();
}

// ---- statements ----

Evaluator::Flow Evaluator::execute(const std::vector<Statement>& statements) {
  for (const Statement& statement : statements) {
    const Flow flow = execute(statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  const Level level(*this);
  runtime_.meter.step();
  position_ = statement.at;
  return std::visit([&](const auto& node) { return on(node); }, statement.node);
}

std::shared_ptr<Frame> Evaluator::open_frame(const Body& body, std::shared_ptr<Frame> outer) const {
  auto frame = std::make_shared<Frame>(Frame{std::move(outer), {}});
  for (const NameId name : body.hidden) {
    frame->variables.emplace_back(
        name, Value::undefined(fmt::format("'{}' is undefined", tree_.names[name])));
  }
  return frame;
}

Evaluator::Flow Evaluator::execute_body(const Body& body, std::shared_ptr<Frame> frame) {
  const Enter enter(*this, std::move(frame));
  return execute(body.statements);
}

Evaluator::Flow Evaluator::on(const TextStatement& statement) {
  out_->append(statement.text.string().text);
  return Flow::next;
}

void Evaluator::write_text(const Value& value) {
  if (!value.is_string()) raise("a block must give a string, not '{}'", type_name(value));
  out_->append(value.string().text);
}

Evaluator::Flow Evaluator::on(const PrintStatement& statement) {
  runtime_.append_str(*out_, evaluate(statement.value));
  return Flow::next;
}

Evaluator::Flow Evaluator::on(const IfStatement& statement) {
  for (const auto& [test, block] : statement.branches) {
    if (truth(evaluate(test))) return execute(block);
  }
  return execute(statement.otherwise);
}

Evaluator::Flow Evaluator::on(const ForStatement& statement) {
  return run_loop(statement, evaluate(statement.iterable), frame_, 0);
}

Evaluator::Flow Evaluator::run_loop(const ForStatement& statement, Value iterable,
                                    std::shared_ptr<Frame> outer, uint32_t depth) {
  const Value variable = runtime_.object<Loop>(*this, statement, std::move(iterable), outer, depth);
  Loop& loop = *variable.object_as<Loop>();
  struct Finish {
    Loop& loop;
    ~Finish() { loop.finish(); }
  } const finish{loop};
  bool completed = false;  // a round that is broken off does not count, as in Jinja
  for (Value item; loop.next(item);) {
    std::shared_ptr<Frame> frame = open_frame(statement.body, outer);
    frame->set(tree_.loop, variable);
    assign(statement.target, std::move(item), *frame);
    const Flow flow = execute_body(statement.body, std::move(frame));
    if (flow == Flow::leave_loop) break;
    completed = completed || flow == Flow::next;
  }
  if (completed) return Flow::next;
  return execute_body(statement.otherwise, open_frame(statement.otherwise, outer));
}

Evaluator::Flow Evaluator::on(const SetStatement& statement) {
  assign(statement.target, evaluate(statement.value), *frame_);
  return Flow::next;
}

Evaluator::Flow Evaluator::on(const SetBlockStatement& statement) {
  const std::shared_ptr<Frame> frame = open_frame(statement.body, frame_);
  Value text;
  {
    Redirect redirect(*this);
    const Flow flow = execute_body(statement.body, frame);
    if (flow != Flow::next) return flow;
    text = redirect.finish();
  }
  if (statement.filter) {
    const Enter enter(*this, frame);
    const Value* const around = std::exchange(block_text_, &text);
    const Value filtered = evaluate(statement.filter);
    block_text_ = around;
    text = filtered;
  }
  assign(statement.target, std::move(text), *frame_);
  return Flow::next;
}

Evaluator::Flow Evaluator::on(const WithStatement& statement) {
  std::shared_ptr<Frame> frame = open_frame(statement.body, frame_);
  for (const auto& [target, value] : statement.variables) assign(target, evaluate(value), *frame);
  return execute_body(statement.body, std::move(frame));
}

Evaluator::Flow Evaluator::on(const MacroStatement& statement) {
  frame_->set(statement.name, runtime_.object<Macro>(*this, *statement.macro, frame_));
  return Flow::next;
}

Evaluator::Flow Evaluator::on(const CallStatement& statement) {
  const auto& call = std::get<CallExpr>(statement.call->node);
  const Value callee = evaluate(call.callee);
  Arguments arguments = evaluate(call.arguments);
  arguments.keywords.emplace_back("caller",
                                  runtime_.object<Macro>(*this, *statement.caller, frame_));
  position_ = statement.call->at;
  write_text(runtime_.call(callee, arguments));
  return Flow::next;
}

Evaluator::Flow Evaluator::on(const FilterStatement& statement) {
  const std::shared_ptr<Frame> frame = open_frame(statement.body, frame_);
  Value text;
  {
    Redirect redirect(*this);
    const Flow flow = execute_body(statement.body, frame);
    if (flow != Flow::next) return flow;
    text = redirect.finish();
  }
  const Enter enter(*this, frame);
  const Value* const around = std::exchange(block_text_, &text);
  write_text(evaluate(statement.filter));
  block_text_ = around;
  return Flow::next;
}

Evaluator::Flow Evaluator::on(const ScopeStatement& statement) {
  return execute_body(statement.body, open_frame(statement.body, frame_));
}

void Evaluator::assign(const Target& target, Value value, Frame& frame) {
  if (target.parts.empty() && target.attribute.empty()) {
    runtime_.meter.step(frame.variables.size() / 16);
    return frame.set(target.name, std::move(value));
  }
  if (target.parts.empty()) {
    auto* ns = lookup(target.name).object_as<Namespace>();
    position_ = target.at;
    if (!ns)
      raise("cannot assign the attribute '{}' of a value that is not a namespace",
            target.attribute);
    if (target.attribute.starts_with('_')) {
      raise("a namespace cannot store '{}': the name starts with '_'", target.attribute);
    }
    runtime_.meter.step(ns->size() / 16);
    return ns->set(target.attribute, std::move(value));
  }
  const std::vector<Value> items = runtime_.items(value);
  if (items.size() != target.parts.size()) {
    position_ = target.at;
    raise("expected {} values to unpack, got {}", target.parts.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], frame);
}

// ---- macros ----

Value Evaluator::call_macro(const MacroCode& macro, std::shared_ptr<Frame> outer,
                            const Arguments& arguments) {
  const Level level(*this);
  const Enter enter(*this, open_frame(macro.body, std::move(outer)));
  Redirect redirect(*this);
  bind_parameters(macro, arguments);
  execute(macro.body.statements);
  return redirect.finish();
}

void Evaluator::bind_parameters(const MacroCode& macro, const Arguments& arguments) {
  const size_t n = macro.parameters.size();
  auto keywords = arguments.keywords;
  const auto take = [&](const std::string& name) {
    std::optional<Value> found;
    for (size_t i = 0; i < keywords.size() && !found; ++i) {
      if (keywords[i].first != name) continue;
      found = std::move(keywords[i].second);
      keywords.erase(keywords.begin() + ptrdiff_t(i));
    }
    return found;
  };
  std::vector<std::optional<Value>> given(n);
  for (size_t i = 0; i < n; ++i) {
    given[i] = i < arguments.positional.size() ? std::optional(arguments.positional[i])
                                               : take(tree_.names[macro.parameters[i].name]);
  }
  if (macro.uses_caller) {
    const std::optional<Value> caller = take("caller");
    frame_->set(tree_.caller, caller ? *caller : Value::undefined("No caller defined"));
  }
  if (macro.uses_kwargs) {
    Runtime::Entries entries;
    for (auto& [name, value] : keywords) {
      entries.emplace_back(runtime_.text(name, arguments.keyword_origin), std::move(value));
    }
    frame_->set(tree_.kwargs, runtime_.dict(std::move(entries)));
  } else if (!keywords.empty()) {
    raise("macro '{}' takes no keyword argument '{}'", macro.name, keywords[0].first);
  }
  const auto first_extra =
      arguments.positional.begin() + ptrdiff_t(std::min(n, arguments.positional.size()));
  if (macro.uses_varargs) {
    frame_->set(tree_.varargs, runtime_.tuple({first_extra, arguments.positional.end()}));
  } else if (first_extra != arguments.positional.end()) {
    raise("macro '{}' takes not more than {} arguments", macro.name, n);
  }
  for (size_t i = 0; i < n; ++i) {  // a default may use the parameters before it
    const Parameter& parameter = macro.parameters[i];
    if (given[i]) {
      frame_->set(parameter.name, *std::move(given[i]));
    } else if (parameter.otherwise) {
      frame_->set(parameter.name, evaluate(parameter.otherwise));
    } else {
      frame_->set(parameter.name, Value::undefined(fmt::format("parameter '{}' was not provided",
                                                               tree_.names[parameter.name])));
    }
  }
}

// ---- expressions ----

Value Evaluator::evaluate(const Expr& expr) {
  const Level level(*this);
  runtime_.meter.step();
  position_ = expr.at;
  return std::visit([&](const auto& node) { return value_of(node, expr.at); }, expr.node);
}

std::vector<Value> Evaluator::evaluate_all(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(evaluate(expr));
  return values;
}

Arguments Evaluator::evaluate(const CallArguments& arguments) {
  Arguments values;
  values.positional = evaluate_all(arguments.positional);
  for (const auto& [name, expr] : arguments.keywords)
    values.keywords.emplace_back(name, evaluate(expr));
  if (arguments.more_positional) {
    for (Value& value : runtime_.items(evaluate(arguments.more_positional))) {
      values.positional.push_back(std::move(value));
    }
  }
  if (arguments.more_keywords) {
    const Value more = evaluate(arguments.more_keywords);
    if (!more.is_dict())
      raise("the argument after ** must be a mapping, not '{}'", type_name(more));
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is_string()) raise("keywords must be strings");
      runtime_.meter.step(1 + values.keywords.size() / 16);
      for (const SpanText::Run& run : key.string().text.runs()) {
        if (run.origin == Origin::content) values.keyword_origin = Origin::content;
      }
      for (const auto& [name, known] : values.keywords) {
        if (name == key.str()) raise("the argument '{}' is given twice", name);
      }
      values.keywords.emplace_back(key.str(), value);
    }
  }
  return values;
}

Value Evaluator::lookup(NameId name) const {
  for (const Frame* frame = frame_.get(); frame; frame = frame->outer.get()) {
    runtime_.meter.step(frame->variables.size() / 16);
    for (const auto& [known, value] : frame->variables) {
      if (known == name) return value;
    }
  }
  if (globals_[name]) return *globals_[name];
  return Value::undefined(fmt::format("'{}' is undefined", tree_.names[name]));
}

Value Evaluator::value_of(const DictExpr& expr, Position at) {
  Runtime::Entries entries;
  for (const auto& [key_expr, value_expr] : expr.entries) {
    Value key = evaluate(key_expr);
    Value value = evaluate(value_expr);
    position_ = at;
    runtime_.set(entries, std::move(key), std::move(value));
  }
  return runtime_.dict(std::move(entries));
}

Value Evaluator::value_of(const ConditionalExpr& expr, Position at) {
  if (truth(evaluate(expr.test))) return evaluate(expr.then);
  if (expr.otherwise) return evaluate(expr.otherwise);
  return Value::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.",
      at.line));
}

Value Evaluator::value_of(const LogicExpr& expr, Position) {
  Value value;
  for (const ExprPtr& operand : expr.operands) {
    value = evaluate(operand);
    if (truth(value) != expr.is_and) break;
  }
  return value;
}

Value Evaluator::value_of(const SignExpr& expr, Position at) {
  const Value operand = evaluate(expr.operand);
  position_ = at;
  return expr.negative ? runtime_.negate(operand) : runtime_.plus(operand);
}

Value Evaluator::value_of(const CompareExpr& expr, Position at) {
  Value left = evaluate(expr.first);
  for (const auto& [op, operand] : expr.rest) {
    Value right = evaluate(operand);
    position_ = at;
    if (!runtime_.compare(op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::value_of(const ArithmeticExpr& expr, Position at) {
  Value left = evaluate(expr.first);
  for (const auto& [op, operand] : expr.rest) {
    const Value right = evaluate(operand);
    position_ = at;
    left = runtime_.binary(op, left, right);
  }
  return left;
}

Value Evaluator::value_of(const ConcatExpr& expr, Position at) {
  TextBuilder text(runtime_.meter);
  for (const ExprPtr& part : expr.parts) {
    const Value value = evaluate(part);
    position_ = at;
    runtime_.append_str(text, value);
  }
  return std::move(text).finish();
}

Value Evaluator::value_of(const AttributeExpr& expr, Position at) {
  const Value object = evaluate(expr.object);
  position_ = at;
  return runtime_.attribute(object, expr.name);
}

Value Evaluator::value_of(const ItemExpr& expr, Position at) {
  const Value object = evaluate(expr.object);
  const Value key = evaluate(expr.key);
  position_ = at;
  return runtime_.item(object, key);
}

Value Evaluator::value_of(const SliceExpr& expr, Position at) {
  const Value object = evaluate(expr.object);
  const Value start = evaluate_or_none(expr.start);
  const Value stop = evaluate_or_none(expr.stop);
  const Value step = evaluate_or_none(expr.step);
  position_ = at;
  return runtime_.slice(object, start, stop, step);
}

Value Evaluator::value_of(const CallExpr& expr, Position at) {
  const Value callee = evaluate(expr.callee);
  const Arguments arguments = evaluate(expr.arguments);
  position_ = at;
  return runtime_.call(callee, arguments);
}

Value Evaluator::value_of(const FilterExpr& expr, Position at) {
  const Value operand = expr.operand ? evaluate(expr.operand) : *block_text_;
  const Arguments arguments = evaluate(expr.arguments);
  position_ = at;
  if (!expr.filter) raise("there is no filter named '{}'", expr.name);
  return apply(runtime_, *expr.filter, operand, arguments);
}

Value Evaluator::value_of(const TestExpr& expr, Position at) {
  const Value operand = evaluate(expr.operand);
  const Arguments arguments = evaluate(expr.arguments);
  position_ = at;
  if (!expr.test) raise("there is no test named '{}'", expr.name);
  return Value::boolean(truth(apply(runtime_, *expr.test, operand, arguments)) != expr.negated);
}

}  // namespace cera::text::jinja
