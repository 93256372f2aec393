#pragma once
// The syntax tree of a template: immutable after parsing, shared by all renderings. Expression
// trees are at most as high as the nesting limit, so recursion over them is bounded.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace cera::text::jinja {

using NameId = uint32_t;  // into Template::names

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr more_positional;  // *expr, or null
  ExprPtr more_keywords;    // **expr, or null
};

struct ConstantExpr {
  Value value;
};
struct NameExpr {
  NameId name;
};
struct TupleExpr {
  std::vector<ExprPtr> items;
};
struct ListExpr {
  std::vector<ExprPtr> items;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct ConditionalExpr {
  ExprPtr test, then;
  ExprPtr otherwise;  // may be null
};
struct LogicExpr {
  bool is_and;
  std::vector<ExprPtr> operands;
};
struct NotExpr {
  ExprPtr operand;
};
struct SignExpr {
  bool negative;
  ExprPtr operand;
};
struct CompareExpr {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct ArithmeticExpr {
  ExprPtr first;
  std::vector<std::pair<BinaryOp, ExprPtr>> rest;  // from left to right
};
struct ConcatExpr {
  std::vector<ExprPtr> parts;
};
struct AttributeExpr {
  ExprPtr object;
  std::string name;
};
struct ItemExpr {
  ExprPtr object, key;
};
struct SliceExpr {
  ExprPtr object;
  ExprPtr start, stop, step;  // may be null
};
struct CallExpr {
  ExprPtr callee;
  CallArguments arguments;
};
struct FilterExpr {
  ExprPtr operand;  // null: the text of the surrounding block
  std::string name;
  const Builtin* filter;  // null: unknown, an error when it is reached
  CallArguments arguments;
};
struct TestExpr {
  ExprPtr operand;
  std::string name;
  const Builtin* test;  // as above
  bool negated;
  CallArguments arguments;
};

struct Expr {
  Position at;
  uint32_t height;  // 1 for a leaf
  std::variant<ConstantExpr, NameExpr, TupleExpr, ListExpr, DictExpr, ConditionalExpr, LogicExpr,
               NotExpr, SignExpr, CompareExpr, ArithmeticExpr, ConcatExpr, AttributeExpr, ItemExpr,
               SliceExpr, CallExpr, FilterExpr, TestExpr>
      node;
};

struct Statement;

/// Statements that run in a scope of their own.
struct Body {
  std::vector<Statement> statements;
  /// Names that this scope assigns and that no outer one knows: undefined here until then, even
  /// where an input has that name (scopes.cpp).
  std::vector<NameId> hidden;
};

/// What is assigned to: a name, namespace.attribute, or several of them.
struct Target {
  Position at;
  NameId name = 0;
  std::string attribute;      // of the namespace `name`; empty for a plain name
  std::vector<Target> parts;  // of an unpacked value; empty for a single target
};

struct Parameter {
  NameId name;
  ExprPtr otherwise;  // default; may be null
};

struct MacroCode {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // Whether the body reads these special names.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct TextStatement {
  Value text;
};
struct PrintStatement {
  ExprPtr value;
};
struct IfStatement {
  std::vector<std::pair<ExprPtr, std::vector<Statement>>> branches;
  std::vector<Statement> otherwise;
};
struct ForStatement {
  Target target;
  ExprPtr iterable;
  ExprPtr test;  // may be null
  bool recursive;
  Body body, otherwise;
};
struct SetStatement {
  Target target;
  ExprPtr value;
};
struct SetBlockStatement {
  Target target;
  ExprPtr filter;  // may be null
  Body body;
};
struct WithStatement {
  std::vector<std::pair<Target, ExprPtr>> variables;
  Body body;
};
struct MacroStatement {
  NameId name;
  std::shared_ptr<MacroCode> macro;
};
struct CallStatement {
  std::shared_ptr<MacroCode> caller;
  ExprPtr call;
};
struct FilterStatement {
  ExprPtr filter;
  Body body;
};
struct ScopeStatement {  // generation
  Body body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  Position at;
  std::variant<TextStatement, PrintStatement, IfStatement, ForStatement, SetStatement,
               SetBlockStatement, WithStatement, MacroStatement, CallStatement, FilterStatement,
               ScopeStatement, BreakStatement, ContinueStatement>
      node;
};

struct Template {
  std::vector<std::string> names;
  Body body;
  NameId loop, caller, varargs, kwargs;  // the special names
};

/// Fails with Failure. max_depth bounds the nesting of brackets, blocks and operators.
Template parse(std::string_view source, uint32_t max_depth);

/// Fills in Body::hidden (scopes.cpp); part of parse().
void resolve_scopes(Template& tree);

}  // namespace cera::text::jinja
