#pragma once
// Runs a template: statements write to the current buffer, expressions give values.

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace cera::text::jinja {

/// The variables of one scope while it runs.
struct Frame {
  std::shared_ptr<Frame> outer;
  std::vector<std::pair<NameId, Value>> variables;

  void set(NameId name, Value value);
};

class Evaluator {
 public:
  using Inputs = std::unordered_map<std::string, Value>;

  /// max_levels bounds the recursion (statements, expressions and calls together).
  Evaluator(const Template& tree, Runtime& runtime, uint32_t max_levels, const Inputs& inputs);

  /// The whole template. After a Failure, position() tells where it happened.
  SpanText run();
  Position position() const { return position_; }

 private:
  friend class Loop;
  friend class Macro;
  enum class Flow : uint8_t { next, leave_loop, next_round };
  class Level;
  class Redirect;
  class Enter;

  // Statements.
  Flow execute(const std::vector<Statement>& statements);
  Flow execute(const Statement& statement);
  Flow execute_body(const Body& body, std::shared_ptr<Frame> frame);
  Flow on(const TextStatement& statement);
  Flow on(const PrintStatement& statement);
  Flow on(const IfStatement& statement);
  Flow on(const ForStatement& statement);
  Flow on(const SetStatement& statement);
  Flow on(const SetBlockStatement& statement);
  Flow on(const WithStatement& statement);
  Flow on(const MacroStatement& statement);
  Flow on(const CallStatement& statement);
  Flow on(const FilterStatement& statement);
  Flow on(const ScopeStatement& statement);
  Flow on(const BreakStatement&) { return Flow::leave_loop; }
  Flow on(const ContinueStatement&) { return Flow::next_round; }

  /// The result of a call or filter block, which Jinja does not convert.
  void write_text(const Value& value);
  std::shared_ptr<Frame> open_frame(const Body& body, std::shared_ptr<Frame> outer) const;
  void assign(const Target& target, Value value, Frame& frame);
  Flow run_loop(const ForStatement& statement, Value iterable, std::shared_ptr<Frame> outer,
                uint32_t depth);
  Value call_macro(const MacroCode& macro, std::shared_ptr<Frame> outer,
                   const Arguments& arguments);
  void bind_parameters(const MacroCode& macro, const Arguments& arguments);

  // Expressions.
  Value evaluate(const Expr& expr);
  Value evaluate(const ExprPtr& expr) { return evaluate(*expr); }
  Value evaluate_or_none(const ExprPtr& expr) { return expr ? evaluate(*expr) : Value::none(); }
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& exprs);
  Arguments evaluate(const CallArguments& arguments);
  Value lookup(NameId name) const;
  Value value_of(const ConstantExpr& expr, Position) { return expr.value; }
  Value value_of(const NameExpr& expr, Position) { return lookup(expr.name); }
  Value value_of(const TupleExpr& expr, Position) {
    return runtime_.tuple(evaluate_all(expr.items));
  }
  Value value_of(const ListExpr& expr, Position) { return runtime_.list(evaluate_all(expr.items)); }
  Value value_of(const DictExpr& expr, Position at);
  Value value_of(const ConditionalExpr& expr, Position at);
  Value value_of(const LogicExpr& expr, Position);
  Value value_of(const NotExpr& expr, Position) {
    return Value::boolean(!truth(evaluate(expr.operand)));
  }
  Value value_of(const SignExpr& expr, Position at);
  Value value_of(const CompareExpr& expr, Position at);
  Value value_of(const ArithmeticExpr& expr, Position at);
  Value value_of(const ConcatExpr& expr, Position at);
  Value value_of(const AttributeExpr& expr, Position at);
  Value value_of(const ItemExpr& expr, Position at);
  Value value_of(const SliceExpr& expr, Position at);
  Value value_of(const CallExpr& expr, Position at);
  Value value_of(const FilterExpr& expr, Position at);
  Value value_of(const TestExpr& expr, Position at);

  const Template& tree_;
  Runtime& runtime_;
  const uint32_t max_levels_;
  std::vector<std::optional<Value>> globals_;  // by NameId: inputs and functions
  std::shared_ptr<Frame> frame_;
  TextBuilder* out_ = nullptr;
  const Value* block_text_ = nullptr;  // what a filter without operand is applied to
  uint32_t level_ = 0;
  Position position_;
};

}  // namespace cera::text::jinja
