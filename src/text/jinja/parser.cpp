// Recursive descent over the tokens. Binary operators are climbed by precedence, and chains of one
// level become one node, so that a long sum is not a deep tree.

#include <algorithm>
#include <unordered_map>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

using Type = Token::Type;

constexpr size_t kMaxKeywords = 1000;

enum Level { kOr = 1, kAnd, kNot, kCompare, kAdd, kConcat, kMultiply, kPower, kUnary };

struct Operator {
  int level = 0;  // 0: not a binary operator
  BinaryOp binary = {};
  CompareOp compare = {};
  size_t n_tokens = 1;
};

/// Names the next token in messages.
std::string described(const Token& token) {
  switch (token.type) {
    case Type::end:
      return "end of template";
    case Type::data:
      return "text";
    case Type::print_begin:
      return "{{";
    case Type::print_end:
      return "}}";
    case Type::block_begin:
      return "{%";
    case Type::block_end:
      return "%}";
    case Type::string:
      return "string";
    default:
      return token.text;
  }
}

class Parser {
 public:
  Parser(std::string_view source, uint32_t max_depth)
      : tokens_(tokenize(source)), max_depth_(max_depth) {}

  Template run() {
    tree_.loop = intern("loop");
    tree_.caller = intern("caller");
    tree_.varargs = intern("varargs");
    tree_.kwargs = intern("kwargs");
    tree_.body.statements = parse_statements({});
    if (!unknown_.empty()) throw unknown_.front();
    resolve_scopes(tree_);
    return std::move(tree_);
  }

 private:
  // ---- tokens ----

  const Token& peek(size_t offset = 0) const {
    return tokens_[std::min(at_ + offset, tokens_.size() - 1)];
  }
  const Token& next() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_symbol(std::string_view symbol) {
    if (!peek().is_symbol(symbol)) return false;
    next();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!peek().is_name(name)) return false;
    next();
    return true;
  }
  [[noreturn]] void unexpected(std::string_view wanted) const {
    raise_at(peek().at, "expected {}, found '{}'", wanted, described(peek()));
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) unexpected(fmt::format("'{}'", symbol));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) unexpected(fmt::format("'{}'", name));
  }
  const Token& expect(Type type, std::string_view wanted) {
    if (peek().type != type) unexpected(wanted);
    return next();
  }
  std::string expect_identifier() { return expect(Type::name, "a name").text; }

  /// Counts nesting while it lives.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser.depth_ > parser.max_depth_) {
        raise_at(parser.peek().at, "the template is nested deeper than {} levels",
                 parser.max_depth_);
      }
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  NameId intern(const std::string& name) {
    const auto [entry, added] = ids_.emplace(name, NameId(tree_.names.size()));
    if (added) tree_.names.push_back(name);
    return entry->second;
  }

  // ---- making nodes ----

  static uint32_t height(const ExprPtr& expr) { return expr ? expr->height : 0; }
  static uint32_t height(const std::vector<ExprPtr>& exprs) {
    uint32_t tallest = 0;
    for (const ExprPtr& expr : exprs) tallest = std::max(tallest, height(expr));
    return tallest;
  }
  template <class First>
  static uint32_t height(const std::vector<std::pair<First, ExprPtr>>& exprs) {
    uint32_t tallest = 0;
    for (const auto& [first, expr] : exprs) {
      tallest = std::max(tallest, height(expr));
      if constexpr (std::is_same_v<First, ExprPtr>) tallest = std::max(tallest, height(first));
    }
    return tallest;
  }
  static uint32_t height(const CallArguments& arguments) {
    return std::max({height(arguments.positional), height(arguments.keywords),
                     height(arguments.more_positional), height(arguments.more_keywords)});
  }

  template <class Node>
  ExprPtr make(Position at, Node node, uint32_t height_below = 0) const {
    if (height_below >= max_depth_)
      raise_at(at, "the expression is nested deeper than {} levels", max_depth_);
    return std::make_unique<const Expr>(Expr{at, height_below + 1, std::move(node)});
  }

  static Value literal(const std::string& text) {
    SpanText span(text, Origin::template_text);
    return Value(std::make_shared<const String>(
        String{std::move(span), Account(), unicode::is_ascii(text), false}));
  }

  // ---- statements ----

  /// Up to a tag with one of these names, which is left unread; without names, up to the end.
  std::vector<Statement> parse_statements(const std::vector<std::string_view>& ends) {
    const Nested nested(*this);
    std::vector<Statement> statements;
    while (peek().type != Type::end) {
      const Token& token = next();
      if (token.type == Type::data) {
        statements.push_back({token.at, TextStatement{literal(token.text)}});
      } else if (token.type == Type::print_begin) {
        statements.push_back({token.at, PrintStatement{parse_tuple()}});
        expect(Type::print_end, "'}}'");
      } else {
        if (std::find(ends.begin(), ends.end(), peek().text) != ends.end() &&
            peek().type == Type::name) {
          return statements;
        }
        open_tags_.push_back(peek().text);
        statements.push_back(parse_statement());
        open_tags_.pop_back();
        expect(Type::block_end, "'%}'");
      }
    }
    if (!ends.empty()) {
      raise_at(peek().at, "unexpected end of template: '{}' is not closed, expected '{}'",
               open_tags_.back(), fmt::join(ends, "' or '"));
    }
    return statements;
  }

  /// The block between this tag and `ends`; the ending tag's name is consumed and returned.
  std::string parse_block(std::vector<Statement>& out, const std::vector<std::string_view>& ends) {
    skip_symbol(":");
    expect(Type::block_end, "'%}'");
    out = parse_statements(ends);
    return next().text;
  }

  /// A block that runs in its own scope. Jinja checks filter names early there, whatever surrounds
  /// it.
  std::string parse_body(Body& body, const std::vector<std::string_view>& ends) {
    const bool soft = std::exchange(soft_, false);
    std::string end = parse_block(body.statements, ends);
    soft_ = soft;
    return end;
  }

  /// A body that is a function of its own: a loop around it is out of reach.
  void parse_function_body(Body& body, std::string_view end) {
    const uint32_t loops = std::exchange(loops_, 0);
    parse_body(body, {end});
    loops_ = loops;
  }

  void parse_macro_body(MacroCode& macro, std::string_view end) {
    macros_.push_back(&macro);
    parse_function_body(macro.body, end);
    macros_.pop_back();
  }

  Statement parse_statement() {
    using Parse = Statement (Parser::*)(Position);
    static const std::unordered_map<std::string_view, Parse> kParsers{
        {"for", &Parser::parse_for},
        {"if", &Parser::parse_if},
        {"set", &Parser::parse_set},
        {"with", &Parser::parse_with},
        {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block},
        {"filter", &Parser::parse_filter_block},
        {"generation", &Parser::parse_generation},
        {"break", &Parser::parse_break},
        {"continue", &Parser::parse_continue},
        {"print", &Parser::parse_print},
    };
    constexpr std::string_view kRefused[] = {"include", "import", "from",
                                             "extends", "block",  "autoescape"};
    const Token& token = expect(Type::name, "the name of a statement");
    const auto parser = kParsers.find(token.text);
    if (parser != kParsers.end()) return (this->*parser->second)(token.at);
    if (std::find(std::begin(kRefused), std::end(kRefused), token.text) != std::end(kRefused)) {
      raise_at(token.at, "'{}' is not supported: a chat template stands alone", token.text);
    }
    const size_t n = open_tags_.size();
    if (n > 1)
      raise_at(token.at, "unknown statement '{}' inside of '{}'", token.text, open_tags_[n - 2]);
    raise_at(token.at, "unknown statement '{}'", token.text);
  }

  Statement parse_for(Position at) {
    ForStatement statement;
    ++loop_variables_;
    statement.target = parse_target("in", false);
    expect_name("in");
    statement.iterable = parse_tuple(false, "recursive");
    const bool soft = std::exchange(soft_, false);
    if (skip_name("if")) statement.test = parse_expression();
    soft_ = soft;
    statement.recursive = skip_name("recursive");
    ++loops_;
    const std::string end = parse_body(statement.body, {"endfor", "else"});
    --loops_;
    if (end == "else") parse_body(statement.otherwise, {"endfor"});
    --loop_variables_;
    return {at, std::move(statement)};
  }

  Statement parse_if(Position at) {
    IfStatement statement;
    const bool soft = std::exchange(soft_, true);
    std::string end = "elif";
    while (end == "elif") {
      ExprPtr test = parse_tuple(false);
      std::vector<Statement> block;
      end = parse_block(block, {"elif", "else", "endif"});
      statement.branches.emplace_back(std::move(test), std::move(block));
    }
    if (end == "else") parse_block(statement.otherwise, {"endif"});
    soft_ = soft;
    return {at, std::move(statement)};
  }

  Statement parse_set(Position at) {
    Target target = parse_target("", true);
    if (skip_symbol("=")) return {at, SetStatement{std::move(target), parse_tuple()}};
    SetBlockStatement block{std::move(target), nullptr, {}};
    if (peek().is_symbol("|")) {
      const bool soft = std::exchange(soft_, false);
      block.filter = parse_filters(nullptr);
      soft_ = soft;
    }
    parse_body(block.body, {"endset"});
    return {at, std::move(block)};
  }

  Statement parse_with(Position at) {
    WithStatement statement;
    while (peek().type != Type::block_end) {
      if (!statement.variables.empty()) expect_symbol(",");
      Target target = parse_target("", false);
      expect_symbol("=");
      statement.variables.emplace_back(std::move(target), parse_expression());
    }
    parse_body(statement.body, {"endwith"});
    return {at, std::move(statement)};
  }

  void parse_signature(MacroCode& macro) {
    expect_symbol("(");
    while (!peek().is_symbol(")")) {
      if (!macro.parameters.empty()) expect_symbol(",");
      const Position at = peek().at;
      Parameter parameter{intern(expect_identifier()), nullptr};
      if (skip_symbol("=")) {
        parameter.otherwise = parse_expression();
      } else if (!macro.parameters.empty() && macro.parameters.back().otherwise) {
        raise_at(at, "a parameter without default follows one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    expect_symbol(")");
  }

  Statement parse_macro(Position at) {
    auto macro = std::make_shared<MacroCode>();
    const Token& name = expect(Type::name, "the macro's name");
    check_assignable(name);
    macro->name = name.text;
    parse_signature(*macro);
    parse_macro_body(*macro, "endmacro");
    return {at, MacroStatement{intern(macro->name), std::move(macro)}};
  }

  Statement parse_call_block(Position at) {
    auto caller = std::make_shared<MacroCode>();
    caller->name = "caller";
    if (peek().is_symbol("(")) parse_signature(*caller);
    ExprPtr call = parse_expression();
    if (!std::holds_alternative<CallExpr>(call->node)) raise_at(call->at, "expected a call");
    parse_macro_body(*caller, "endcall");
    return {at, CallStatement{std::move(caller), std::move(call)}};
  }

  Statement parse_filter_block(Position at) {
    FilterStatement statement;
    const bool soft = std::exchange(soft_, false);
    statement.filter = parse_filters(parse_filter(nullptr));
    soft_ = soft;
    parse_body(statement.body, {"endfilter"});
    return {at, std::move(statement)};
  }

  Statement parse_generation(Position at) {
    ScopeStatement statement;
    parse_function_body(statement.body, "endgeneration");
    return {at, std::move(statement)};
  }

  Statement parse_break(Position at) {
    if (loops_ == 0) raise_at(at, "'break' outside of a loop");
    return {at, BreakStatement{}};
  }

  Statement parse_continue(Position at) {
    if (loops_ == 0) raise_at(at, "'continue' outside of a loop");
    return {at, ContinueStatement{}};
  }

  Statement parse_print(Position at) { return {at, PrintStatement{parse_tuple()}}; }

  // ---- targets ----

  void check_assignable(const Token& name) {
    constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), name.text) !=
        std::end(kConstants)) {
      raise_at(name.at, "can't assign to '{}'", name.text);
    }
  }

  Target parse_target(std::string_view end, bool with_namespace) {
    Target target = parse_single_target(with_namespace);
    if (!peek().is_symbol(",")) return target;
    Target tuple{target.at, 0, {}, {}};
    tuple.parts.push_back(std::move(target));
    while (skip_symbol(",")) {
      const bool done = peek().is_symbol("=") || peek().is_symbol(")") ||
                        peek().type == Type::block_end || (!end.empty() && peek().is_name(end));
      if (done) break;
      tuple.parts.push_back(parse_single_target(with_namespace));
    }
    return tuple;
  }

  Target parse_single_target(bool with_namespace) {
    const Nested nested(*this);
    if (skip_symbol("(")) {
      Target target = parse_target("", with_namespace);
      expect_symbol(")");
      return target;
    }
    const Token& token = expect(Type::name, "a name to assign to");
    Target target{token.at, intern(token.text), {}, {}};
    if (with_namespace && skip_symbol(".")) {
      target.attribute = expect_identifier();
      return target;
    }
    check_assignable(token);
    if (loop_variables_ > 0 && token.text == "loop")
      raise_at(token.at, "can't assign to the special variable 'loop'");
    return target;
  }

  // ---- expressions ----

  ExprPtr parse_expression(bool with_conditional = true) {
    return with_conditional ? parse_conditional() : parse_binary(kOr);
  }

  ExprPtr parse_conditional() {
    const Position at = peek().at;
    const size_t n_unknown = unknown_.size();
    ExprPtr then = parse_binary(kOr);
    while (skip_name("if")) {
      const Nested nested(*this);
      ExprPtr test = parse_binary(kOr);
      ExprPtr otherwise = skip_name("else") ? parse_conditional() : nullptr;
      unknown_.resize(n_unknown, Failure{});  // only an error if it is reached
      const uint32_t below = std::max({height(test), height(then), height(otherwise)});
      then =
          make(at, ConditionalExpr{std::move(test), std::move(then), std::move(otherwise)}, below);
    }
    return then;
  }

  Operator peek_operator() const {
    struct Row {
      std::string_view spelling;
      Operator op;
    };
    static const Row kSymbols[] = {
        {"==", {kCompare, {}, CompareOp::equal}},
        {"!=", {kCompare, {}, CompareOp::not_equal}},
        {"<", {kCompare, {}, CompareOp::less}},
        {"<=", {kCompare, {}, CompareOp::less_equal}},
        {">", {kCompare, {}, CompareOp::greater}},
        {">=", {kCompare, {}, CompareOp::greater_equal}},
        {"+", {kAdd, BinaryOp::add}},
        {"-", {kAdd, BinaryOp::subtract}},
        {"~", {kConcat}},
        {"*", {kMultiply, BinaryOp::multiply}},
        {"/", {kMultiply, BinaryOp::divide}},
        {"//", {kMultiply, BinaryOp::floor_divide}},
        {"%", {kMultiply, BinaryOp::modulo}},
        {"**", {kPower, BinaryOp::power}},
    };
    static const Row kNames[] = {
        {"or", {kOr}},
        {"and", {kAnd}},
        {"in", {kCompare, {}, CompareOp::in}},
    };
    const Token& token = peek();
    if (token.is_name("not") && peek(1).is_name("in")) return {kCompare, {}, CompareOp::not_in, 2};
    if (token.type == Type::symbol) {
      for (const Row& row : kSymbols) {
        if (token.text == row.spelling) return row.op;
      }
    } else if (token.type == Type::name) {
      for (const Row& row : kNames) {
        if (token.text == row.spelling) return row.op;
      }
    }
    return {};
  }

  /// Everything that binds at least as tightly as `level`.
  ExprPtr parse_binary(int level) {
    ExprPtr left;
    if (level <= kNot && peek().is_name("not")) {
      const Nested nested(*this);
      const Position at = next().at;
      left = parse_binary(kNot);
      const uint32_t below = height(left);
      left = make(at, NotExpr{std::move(left)}, below);
    } else {
      left = parse_unary();
    }
    for (Operator op = peek_operator(); op.level >= level && op.level > 0; op = peek_operator()) {
      left = parse_chain(std::move(left), op.level);
    }
    return left;
  }

  /// left op a op b ..., all operators of this level.
  ExprPtr parse_chain(ExprPtr left, int level) {
    const Position at = peek().at;
    std::vector<std::pair<Operator, ExprPtr>> rest;
    for (Operator op = peek_operator(); op.level == level; op = peek_operator()) {
      for (size_t i = 0; i < op.n_tokens; ++i) next();
      rest.emplace_back(op, parse_binary(level + 1));
    }
    const uint32_t below = std::max(height(left), height(rest));
    if (level == kOr || level == kAnd || level == kConcat) {
      std::vector<ExprPtr> operands;
      operands.push_back(std::move(left));
      for (auto& [op, operand] : rest) operands.push_back(std::move(operand));
      if (level == kConcat) return make(at, ConcatExpr{std::move(operands)}, below);
      return make(at, LogicExpr{level == kAnd, std::move(operands)}, below);
    }
    if (level == kCompare) {
      CompareExpr compare{std::move(left), {}};
      for (auto& [op, operand] : rest) compare.rest.emplace_back(op.compare, std::move(operand));
      return make(at, std::move(compare), below);
    }
    ArithmeticExpr arithmetic{std::move(left), {}};
    for (auto& [op, operand] : rest) arithmetic.rest.emplace_back(op.binary, std::move(operand));
    return make(at, std::move(arithmetic), below);
  }

  ExprPtr parse_unary(bool with_filters = true) {
    const Nested nested(*this);
    const Position at = peek().at;
    ExprPtr expr;
    if (peek().is_symbol("-") || peek().is_symbol("+")) {
      const bool negative = next().text == "-";
      expr = parse_unary(false);
      const uint32_t below = height(expr);
      expr = make(at, SignExpr{negative, std::move(expr)}, below);
    } else {
      expr = parse_primary();
    }
    expr = parse_postfix(std::move(expr));
    return with_filters ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
  }

  ExprPtr parse_primary() {
    const Token& token = next();
    switch (token.type) {
      case Type::name:
        return parse_name(token);
      case Type::integer:
        return make(token.at, ConstantExpr{Value::integer(token.integer)});
      case Type::real:
        return make(token.at, ConstantExpr{Value::real(token.real)});
      case Type::string: {
        std::string text = token.text;
        while (peek().type == Type::string) text += next().text;
        return make(token.at, ConstantExpr{literal(text)});
      }
      default:
        break;
    }
    if (token.is_symbol("(")) {
      ExprPtr expr = parse_tuple(true, {}, true);
      expect_symbol(")");
      return expr;
    }
    if (token.is_symbol("[")) {
      std::vector<ExprPtr> items = parse_items("]");
      const uint32_t below = height(items);
      return make(token.at, ListExpr{std::move(items)}, below);
    }
    if (token.is_symbol("{")) return parse_dict(token.at);
    raise_at(token.at, "expected an expression, found '{}'", described(token));
  }

  ExprPtr parse_name(const Token& token) {
    if (token.text == "true" || token.text == "True")
      return make(token.at, ConstantExpr{Value::boolean(true)});
    if (token.text == "false" || token.text == "False")
      return make(token.at, ConstantExpr{Value::boolean(false)});
    if (token.text == "none" || token.text == "None")
      return make(token.at, ConstantExpr{Value::none()});
    const NameId name = intern(token.text);
    for (MacroCode* macro : macros_) {
      macro->uses_caller |= name == tree_.caller;
      macro->uses_varargs |= name == tree_.varargs;
      macro->uses_kwargs |= name == tree_.kwargs;
    }
    return make(token.at, NameExpr{name});
  }

  /// Up to the closing symbol, which is consumed; a comma may trail.
  std::vector<ExprPtr> parse_items(std::string_view close) {
    std::vector<ExprPtr> items;
    while (!peek().is_symbol(close)) {
      if (!items.empty()) expect_symbol(",");
      if (peek().is_symbol(close)) break;
      items.push_back(parse_expression());
    }
    next();
    return items;
  }

  ExprPtr parse_dict(Position at) {
    DictExpr dict;
    while (!peek().is_symbol("}")) {
      if (!dict.entries.empty()) expect_symbol(",");
      if (peek().is_symbol("}")) break;
      ExprPtr key = parse_expression();
      expect_symbol(":");
      dict.entries.emplace_back(std::move(key), parse_expression());
    }
    next();
    const uint32_t below = height(dict.entries);
    return make(at, std::move(dict), below);
  }

  /// One expression, or several with commas between them.
  ExprPtr parse_tuple(bool with_conditional = true, std::string_view end = {},
                      bool parentheses = false) {
    const Position at = peek().at;
    const auto at_end = [&] {
      return peek().type == Type::print_end || peek().type == Type::block_end ||
             peek().is_symbol(")") || (!end.empty() && peek().is_name(end));
    };
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (!at_end()) {
      items.push_back(parse_expression(with_conditional));
      if (!skip_symbol(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items[0]);
    if (items.empty() && !parentheses) unexpected("an expression");
    const uint32_t below = height(items);
    return make(at, TupleExpr{std::move(items)}, below);
  }

  // ---- what follows a primary ----

  ExprPtr parse_postfix(ExprPtr expr) {
    for (;;) {
      if (peek().is_symbol(".")) {
        expr = parse_attribute(std::move(expr));
      } else if (peek().is_symbol("[")) {
        expr = parse_subscript(std::move(expr));
      } else if (peek().is_symbol("(")) {
        expr = parse_call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  ExprPtr parse_attribute(ExprPtr object) {
    const Position at = next().at;
    const Token& token = next();
    const uint32_t below = height(object);
    if (token.type == Type::name)
      return make(at, AttributeExpr{std::move(object), token.text}, below);
    if (token.type != Type::integer) raise_at(token.at, "expected a name or number after '.'");
    ExprPtr key = make(token.at, ConstantExpr{Value::integer(token.integer)});
    return make(at, ItemExpr{std::move(object), std::move(key)}, below);
  }

  ExprPtr parse_subscript(ExprPtr object) {
    const Position at = next().at;
    ExprPtr bounds[3];
    size_t n_colons = 0;
    if (!peek().is_symbol(":")) bounds[0] = parse_expression();
    while (n_colons < 2 && skip_symbol(":")) {
      ++n_colons;
      if (!peek().is_symbol("]") && !peek().is_symbol(":")) bounds[n_colons] = parse_expression();
    }
    if (n_colons == 0 && peek().is_symbol(","))
      bounds[0] = parse_rest_of_key(at, std::move(bounds[0]));
    expect_symbol("]");
    const uint32_t below =
        std::max({height(object), height(bounds[0]), height(bounds[1]), height(bounds[2])});
    if (n_colons == 0) return make(at, ItemExpr{std::move(object), std::move(bounds[0])}, below);
    return make(at,
                SliceExpr{std::move(object), std::move(bounds[0]), std::move(bounds[1]),
                          std::move(bounds[2])},
                below);
  }

  /// object[a, b]: the key is a tuple.
  ExprPtr parse_rest_of_key(Position at, ExprPtr first) {
    std::vector<ExprPtr> items;
    items.push_back(std::move(first));
    while (skip_symbol(",")) {
      if (!peek().is_symbol("]")) items.push_back(parse_expression());
    }
    const uint32_t below = height(items);
    return make(at, TupleExpr{std::move(items)}, below);
  }

  ExprPtr parse_call(ExprPtr callee) {
    const Position at = peek().at;
    CallArguments arguments = parse_arguments();
    const uint32_t below = std::max(height(callee), height(arguments));
    return make(at, CallExpr{std::move(callee), std::move(arguments)}, below);
  }

  CallArguments parse_arguments() {
    CallArguments arguments;
    expect_symbol("(");
    bool first = true;
    const auto ensure = [&](bool valid) {
      if (!valid) raise_at(peek().at, "invalid order of arguments in a call");
    };
    while (!peek().is_symbol(")")) {
      if (!first) expect_symbol(",");
      if (!first && peek().is_symbol(")")) break;
      first = false;
      const bool starred = arguments.more_positional || arguments.more_keywords;
      if (skip_symbol("*")) {
        ensure(!starred);
        arguments.more_positional = parse_expression();
      } else if (skip_symbol("**")) {
        ensure(!arguments.more_keywords);
        arguments.more_keywords = parse_expression();
      } else if (peek().type == Type::name && peek(1).is_symbol("=")) {
        ensure(!arguments.more_keywords);
        add_keyword(arguments);
      } else {
        ensure(!starred && arguments.keywords.empty());
        arguments.positional.push_back(parse_expression());
      }
    }
    next();
    return arguments;
  }

  void add_keyword(CallArguments& arguments) {
    const Token& name = next();
    next();
    if (arguments.keywords.size() >= kMaxKeywords)
      raise_at(name.at, "a call has too many keyword arguments");
    for (const auto& [key, value] : arguments.keywords) {
      if (key == name.text) raise_at(name.at, "the argument '{}' is given twice", key);
    }
    arguments.keywords.emplace_back(name.text, parse_expression());
  }

  ExprPtr parse_filters_and_tests(ExprPtr expr) {
    for (;;) {
      if (peek().is_symbol("|")) {
        next();
        expr = parse_filter(std::move(expr));
      } else if (peek().is_name("is")) {
        expr = parse_test(std::move(expr));
      } else if (peek().is_symbol("(")) {
        expr = parse_call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  /// | name | name(...) ...
  ExprPtr parse_filters(ExprPtr expr) {
    while (skip_symbol("|")) expr = parse_filter(std::move(expr));
    return expr;
  }

  std::string parse_dotted_name() {
    std::string name = expect_identifier();
    while (skip_symbol(".")) name += "." + expect_identifier();
    return name;
  }

  /// Null for an unknown one: an error now, unless a condition may keep it from being reached.
  const Builtin* lookup(const Builtin* (*find)(std::string_view), std::string_view kind,
                        const std::string& name, Position at) {
    const Builtin* found = find(name);
    if (found && found->run) return found;
    const char* format = found ? "the {} '{}' is not supported" : "there is no {} named '{}'";
    if (!soft_) {
      unknown_.push_back({ErrorCode::malformed, fmt::format(fmt::runtime(format), kind, name), at});
    }
    return nullptr;
  }

  ExprPtr parse_filter(ExprPtr operand) {
    const Position at = peek().at;
    FilterExpr filter{std::move(operand), parse_dotted_name(), nullptr, {}};
    filter.filter = lookup(find_filter, "filter", filter.name, at);
    if (peek().is_symbol("(")) filter.arguments = parse_arguments();
    const uint32_t below = std::max(height(filter.operand), height(filter.arguments));
    return make(at, std::move(filter), below);
  }

  ExprPtr parse_test(ExprPtr operand) {
    const Position at = next().at;
    const bool negated = skip_name("not");
    TestExpr test{std::move(operand), parse_dotted_name(), nullptr, negated, {}};
    test.test = lookup(find_test, "test", test.name, at);
    const Token& token = peek();
    const bool operand_follows = (token.type == Type::name && token.text != "else" &&
                                  token.text != "or" && token.text != "and") ||
                                 token.type == Type::string || token.type == Type::integer ||
                                 token.type == Type::real || token.is_symbol("[") ||
                                 token.is_symbol("{");
    if (token.is_symbol("(")) {
      test.arguments = parse_arguments();
    } else if (operand_follows) {
      if (token.is_name("is")) raise_at(token.at, "tests cannot be chained with 'is'");
      const Nested nested(*this);
      test.arguments.positional.push_back(parse_postfix(parse_primary()));
    }
    const uint32_t below = std::max(height(test.operand), height(test.arguments));
    return make(at, std::move(test), below);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  const uint32_t max_depth_;
  uint32_t depth_ = 0;
  Template tree_;
  std::unordered_map<std::string, NameId> ids_;
  std::vector<std::string> open_tags_;
  std::vector<MacroCode*> macros_;  // whose bodies are being parsed
  uint32_t loops_ = 0;              // that break and continue can leave
  uint32_t loop_variables_ = 0;     // `for` statements around, whatever lies between
  bool soft_ = false;               // inside of an `if` of the same scope
  std::vector<Failure> unknown_;    // filters and tests that do not exist
};

}  // namespace

Template parse(std::string_view source, uint32_t max_depth) {
  return Parser(source, max_depth).run();
}

}  // namespace cera::text::jinja
