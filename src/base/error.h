#pragma once
// Errors are values. Everything that comes from outside (files, templates, prompts, arguments) is
// answered with a Result; our own bugs hit CERA_ASSERT (base/assert.h).

#include <expected>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace cera {

enum class ErrorCode {
  invalid_argument,  // the caller asked for something that cannot be
  not_found,         // a file, key or tensor is missing
  io,                // the system refused to read or write
  malformed,         // a file, template or text breaks its format
  unsupported,       // well-formed, but not something this build can run
  out_of_memory,
  context_full,  // no room left in the context
  cancelled,
  numeric,   // non-finite values where finite ones are needed
  internal,  // ours to fix
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;  // what was wrong and, where it helps, what to try
  std::string where;    // file, key, tensor, line:column; may be empty

  /// "where: message", or the message alone.
  std::string text() const { return where.empty() ? message : where + ": " + message; }
};

template <class T>
using Result = std::expected<T, Error>;

/// Builds the unexpected value of a Result: `return fail(ErrorCode::io, path, "cannot open: {}",
/// why);`
template <class... Args>
std::unexpected<Error> fail(ErrorCode code, std::string where, fmt::format_string<Args...> format,
                            Args&&... args) {
  return std::unexpected(
      Error{code, fmt::format(format, std::forward<Args>(args)...), std::move(where)});
}

}  // namespace cera

#define CERA_CONCAT_(a, b) a##b
#define CERA_CONCAT(a, b) CERA_CONCAT_(a, b)

/// CERA_TRY(auto file, open(path)); hands an error to the caller, otherwise binds the value.
#define CERA_TRY(declaration, expression) \
  CERA_TRY_(CERA_CONCAT(cera_result_, __LINE__), declaration, expression)
#define CERA_TRY_(result, declaration, expression)                            \
  auto result = (expression);                                                 \
  if (!result.has_value()) return std::unexpected(std::move(result).error()); \
  declaration = std::move(*result)

/// CERA_CHECK(validate(x)); for a Result<void>.
#define CERA_CHECK(expression)                                      \
  do {                                                              \
    auto cera_check_result = (expression);                          \
    if (!cera_check_result.has_value())                             \
      return std::unexpected(std::move(cera_check_result).error()); \
  } while (false)
