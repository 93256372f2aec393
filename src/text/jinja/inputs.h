#pragma once
// JSON from outside as values of the template language. Not metered: its size is the caller's
// business.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "text/jinja/value.h"

namespace cera::text::jinja {

/// All strings, keys included, are content. Fails on nesting deeper than max_depth, naming `what`.
Value from_json(const nlohmann::ordered_json& json, uint32_t max_depth, std::string_view what);

/// The same for a list of messages, whose roles are template text if they look like identifiers.
Value messages_from_json(const nlohmann::ordered_json& json, uint32_t max_depth);

Value input_text(std::string text, Origin origin);

}  // namespace cera::text::jinja
