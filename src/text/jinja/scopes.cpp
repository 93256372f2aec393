// Which names are hidden where. Jinja compiles a template to Python functions, so a name that a
// scope assigns is that scope's own from its first line on, even if an input of that name was
// readable outside:
//   {% for m in messages %}{{ tools }}{% endfor %}{% set tools = 1 %}     prints no tools at all
// Only a first assignment outside of an `if`, of a name not read before in that scope nor known to
// an outer one, hides the input; every other case reads through. This file finds those names.

#include <set>

#include "text/jinja/ast.h"

namespace cera::text::jinja {
namespace {

template <class Visit>
void each_argument(const CallArguments& arguments, Visit visit) {
  for (const ExprPtr& argument : arguments.positional) visit(argument);
  for (const auto& [name, argument] : arguments.keywords) visit(argument);
  visit(arguments.more_positional);
  visit(arguments.more_keywords);
}

/// Calls visit(const ExprPtr&) for every direct part, null ones included.
template <class Visit>
struct EachPart {
  Visit visit;
  void operator()(const ConstantExpr&) const {}
  void operator()(const NameExpr&) const {}
  void operator()(const TupleExpr& e) const {
    for (const auto& item : e.items) visit(item);
  }
  void operator()(const ListExpr& e) const {
    for (const auto& item : e.items) visit(item);
  }
  void operator()(const DictExpr& e) const {
    for (const auto& [key, value] : e.entries) visit(key), visit(value);
  }
  void operator()(const ConditionalExpr& e) const {
    visit(e.test), visit(e.then), visit(e.otherwise);
  }
  void operator()(const LogicExpr& e) const {
    for (const auto& operand : e.operands) visit(operand);
  }
  void operator()(const NotExpr& e) const { visit(e.operand); }
  void operator()(const SignExpr& e) const { visit(e.operand); }
  void operator()(const CompareExpr& e) const {
    visit(e.first);
    for (const auto& [op, operand] : e.rest) visit(operand);
  }
  void operator()(const ArithmeticExpr& e) const {
    visit(e.first);
    for (const auto& [op, operand] : e.rest) visit(operand);
  }
  void operator()(const ConcatExpr& e) const {
    for (const auto& part : e.parts) visit(part);
  }
  void operator()(const AttributeExpr& e) const { visit(e.object); }
  void operator()(const ItemExpr& e) const { visit(e.object), visit(e.key); }
  void operator()(const SliceExpr& e) const {
    visit(e.object), visit(e.start), visit(e.stop), visit(e.step);
  }
  void operator()(const CallExpr& e) const {
    visit(e.callee);
    each_argument(e.arguments, visit);
  }
  void operator()(const FilterExpr& e) const {
    visit(e.operand);
    each_argument(e.arguments, visit);
  }
  void operator()(const TestExpr& e) const {
    visit(e.operand);
    each_argument(e.arguments, visit);
  }
};

/// Calls on_name(NameId) for every name that is read.
template <class OnName>
void each_name(const ExprPtr& expr, const OnName& on_name) {
  if (!expr) return;
  if (const auto* name = std::get_if<NameExpr>(&expr->node)) on_name(name->name);
  const auto below = [&](const ExprPtr& part) { each_name(part, on_name); };
  std::visit(EachPart<decltype(below)>{below}, expr->node);
}

struct Scope {
  const Scope* outer = nullptr;
  std::set<NameId> known;
  std::vector<NameId> hidden;

  bool outside_knows(NameId name) const {
    for (const Scope* scope = outer; scope; scope = scope->outer) {
      if (scope->known.contains(name)) return true;
    }
    return false;
  }
  void read(NameId name) {
    if (!outside_knows(name)) known.insert(name);
  }
  void assign(NameId name, bool conditional) {
    if (known.insert(name).second && !conditional && !outside_knows(name)) hidden.push_back(name);
  }
};

/// The names of one scope: its statements, those of its `if` blocks, and the heads of inner scopes.
class Names {
 public:
  Names(Scope& scope, bool conditional) : scope_(scope), conditional_(conditional) {}

  void visit(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) std::visit(*this, statement.node);
  }
  void read(const ExprPtr& expr) {
    each_name(expr, [&](NameId name) { scope_.read(name); });
  }
  void assign(const Target& target) {
    for (const Target& part : target.parts) assign(part);
    if (!target.parts.empty()) return;
    if (target.attribute.empty()) {
      scope_.assign(target.name, conditional_);
    } else {
      scope_.read(target.name);
    }
  }
  void declare(const Target& target) {
    for (const Target& part : target.parts) declare(part);
    if (target.parts.empty()) scope_.known.insert(target.name);
  }

  void operator()(const TextStatement&) {}
  void operator()(const PrintStatement& s) { read(s.value); }
  void operator()(const IfStatement& s) {
    Names inside(scope_, true);
    for (const auto& [test, block] : s.branches) {
      inside.read(test);
      inside.visit(block);
    }
    inside.visit(s.otherwise);
  }
  void operator()(const ForStatement& s) { read(s.iterable); }
  void operator()(const SetStatement& s) { read(s.value), assign(s.target); }
  void operator()(const SetBlockStatement& s) { assign(s.target); }
  void operator()(const WithStatement& s) {
    for (const auto& [target, value] : s.variables) read(value);
  }
  void operator()(const MacroStatement& s) { scope_.assign(s.name, conditional_); }
  void operator()(const CallStatement& s) { read(s.call); }
  void operator()(const FilterStatement& s) { read(s.filter); }
  void operator()(const ScopeStatement&) {}
  void operator()(const BreakStatement&) {}
  void operator()(const ContinueStatement&) {}

 private:
  Scope& scope_;
  const bool conditional_;
};

/// Goes through the scopes from the outside in.
class Resolver {
 public:
  explicit Resolver(Template& tree) : tree_(tree) {}

  void run() {
    resolve(tree_.body, nullptr, [](Scope&, Names&) {});
  }

 private:
  /// declare(scope, names) makes known what the scope starts with.
  template <class Declare>
  void resolve(Body& body, const Scope* outer, Declare declare) {
    Scope scope{outer, {}, {}};
    Names names(scope, false);
    declare(scope, names);
    names.visit(body.statements);
    body.hidden = std::move(scope.hidden);
    descend(body.statements, scope);
  }

  void descend(std::vector<Statement>& statements, const Scope& scope) {
    for (Statement& statement : statements) {
      std::visit([&](auto& node) { inner(node, scope); }, statement.node);
    }
  }

  void inner(IfStatement& s, const Scope& scope) {
    for (auto& [test, block] : s.branches) descend(block, scope);
    descend(s.otherwise, scope);
  }
  void inner(ForStatement& s, const Scope& scope) {
    resolve(s.body, &scope, [&](Scope& own, Names& names) {
      own.known.insert(tree_.loop);
      names.declare(s.target);
    });
    resolve(s.otherwise, &scope, [](Scope&, Names&) {});
  }
  void inner(WithStatement& s, const Scope& scope) {
    resolve(s.body, &scope, [&](Scope&, Names& names) {
      for (const auto& [target, value] : s.variables) names.declare(target);
    });
  }
  void inner(SetBlockStatement& s, const Scope& scope) {
    resolve(s.body, &scope, [](Scope&, Names&) {});
  }
  void inner(FilterStatement& s, const Scope& scope) {
    resolve(s.body, &scope, [](Scope&, Names&) {});
  }
  void inner(ScopeStatement& s, const Scope& scope) {
    resolve(s.body, &scope, [](Scope&, Names&) {});
  }
  void inner(MacroStatement& s, const Scope& scope) { resolve_macro(*s.macro, scope); }
  void inner(CallStatement& s, const Scope& scope) { resolve_macro(*s.caller, scope); }
  template <class Other>
  void inner(Other&, const Scope&) {}

  void resolve_macro(MacroCode& macro, const Scope& scope) {
    resolve(macro.body, &scope, [&](Scope& own, Names& names) {
      for (const Parameter& parameter : macro.parameters) own.known.insert(parameter.name);
      for (const Parameter& parameter : macro.parameters) names.read(parameter.otherwise);
      if (macro.uses_caller) own.known.insert(tree_.caller);
      if (macro.uses_varargs) own.known.insert(tree_.varargs);
      if (macro.uses_kwargs) own.known.insert(tree_.kwargs);
    });
  }

  Template& tree_;
};

}  // namespace

void resolve_scopes(Template& tree) {
  Resolver(tree).run();
}

}  // namespace cera::text::jinja
