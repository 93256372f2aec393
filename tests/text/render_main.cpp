// Renders chat templates for check_templates.py: one JSON request a line on stdin, one JSON answer
// a line on stdout, {"text": ...} or {"error": ...}.

#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "text/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;

std::shared_ptr<const Json> shared(const Json& request, const char* key) {
  return request.contains(key) ? std::make_shared<const Json>(request[key]) : nullptr;
}

cera::Result<cera::text::SpanText> render(const Json& request) {
  CERA_TRY(const auto chat_template, cera::text::ChatTemplate::parse(request.at("template")));
  cera::text::TemplateInputs inputs;
  inputs.messages = shared(request, "messages");
  inputs.tools = shared(request, "tools");
  inputs.arguments = shared(request, "arguments");
  inputs.add_generation_prompt = request.value("add_generation_prompt", true);
  inputs.bos_token = request.value("bos_token", "");
  inputs.eos_token = request.value("eos_token", "");
  if (request.contains("now")) inputs.now_unix_s = request["now"].get<int64_t>();
  return chat_template->render(inputs);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = render(Json::parse(line));
    Json answer;
    if (text) {
      answer["text"] = text->str();
    } else {
      answer["error"] = text.error().text();
    }
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }
}
