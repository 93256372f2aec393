#pragma once
// Rendering a template over JSON written in the test.

#include <string>

#include <nlohmann/json.hpp>

#include "text/chat_template.h"

namespace cera::text {

using Json = nlohmann::ordered_json;

inline std::shared_ptr<const Json> json(Json value) {
  return std::make_shared<const Json>(std::move(value));
}

inline Result<SpanText> render(const std::string& source, const TemplateInputs& inputs,
                               TemplateLimits limits = {}) {
  CERA_TRY(const auto chat_template, ChatTemplate::parse(source, limits));
  return chat_template->render(inputs);
}

/// With extra variables only.
inline Result<SpanText> render(const std::string& source, Json variables = Json::object(),
                               TemplateLimits limits = {}) {
  TemplateInputs inputs;
  inputs.arguments = json(std::move(variables));
  return render(source, inputs, limits);
}

/// The text, or "error at line L, column C: message".
inline std::string shown(const Result<SpanText>& result) {
  return result ? result->str() : "error at " + result.error().text();
}

/// The text with its content in double angle quotes.
inline std::string marked(const Result<SpanText>& result) {
  if (!result) return shown(result);
  std::string out;
  size_t begin = 0;
  for (const SpanText::Run& run : result->runs()) {
    const std::string piece = result->str().substr(begin, run.end - begin);
    out += run.origin == Origin::content ? "«" + piece + "»" : piece;
    begin = run.end;
  }
  return out;
}

}  // namespace cera::text
