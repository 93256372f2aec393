#pragma once
// Template source to tokens, with trim_blocks and lstrip_blocks on and the last newline dropped, as
// transformers configures Jinja.

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/failure.h"

namespace cera::text::jinja {

struct Token {
  enum class Type : uint8_t {
    data,         // text between tags
    print_begin,  // {{
    print_end,
    block_begin,  // {%
    block_end,
    name,
    string,  // text holds the value, escapes resolved
    integer,
    real,
    symbol,  // an operator or bracket
    end,
  };
  Type type = Type::end;
  Position at;
  std::string text;  // name, symbol, string value, data
  int64_t integer = 0;
  double real = 0;

  bool is_symbol(std::string_view symbol) const { return type == Type::symbol && text == symbol; }
  bool is_name(std::string_view name) const { return type == Type::name && text == name; }
};

/// The last token is `end`. Fails with the place of the fault.
std::vector<Token> tokenize(std::string_view source);

}  // namespace cera::text::jinja
