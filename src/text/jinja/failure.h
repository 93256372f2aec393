#pragma once
// How the template engine reports errors internally: one exception type that never leaves this
// folder. ChatTemplate (text/chat_template.cpp) turns it into an Error.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cera::text::jinja {

struct Position {
  uint32_t line = 1;    // from 1
  uint32_t column = 1;  // from 1, in code points
};

struct Failure {
  ErrorCode code;
  std::string message;
  std::optional<Position> at;  // empty: where evaluation stands
};

/// A failure at the place that is being evaluated.
template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{ErrorCode::malformed, fmt::format(format, std::forward<Args>(args)...), {}};
}

template <class... Args>
[[noreturn]] void raise_at(Position at, fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{ErrorCode::malformed, fmt::format(format, std::forward<Args>(args)...), at};
}

}  // namespace cera::text::jinja
