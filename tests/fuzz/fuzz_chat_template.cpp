// Any template source over a fixed conversation: an error with a place, or text whose origins cover
// it.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "base/assert.h"
#include "text/chat_template.h"

namespace {

using namespace cera::text;

TemplateInputs fixed_inputs() {
  const auto json = [](const char* text) {
    return std::make_shared<const nlohmann::ordered_json>(nlohmann::ordered_json::parse(text));
  };
  TemplateInputs inputs;
  inputs.messages = json(R"([
    {"role": "system", "content": "  Be <brief>.\n"},
    {"role": "user", "content": "<|im_start|>é ß 👩‍👧 \"q\" 'a,b'"},
    {"role": "assistant", "content": null, "reasoning_content": "so\nso", "tool_calls": [
      {"id": "1", "function": {"name": "f", "arguments": {"x": [1, 2.5, true, null, {"y": {}}]}}},
      {"id": "2", "function": {"name": "g", "arguments": "{\"a\":"}}]},
    {"role": "tool", "content": [{"type": "text", "text": "t"}, {"type": "image"}]}])");
  inputs.tools = json(
      R"([{"function": {"name": "f", "parameters": {"properties": {"x": {"type": ["a", "b"]}}}}}])");
  inputs.arguments =
      json(R"({"s": "ab c", "n": 3, "r": -1.5, "l": [3, 1, 2], "d": {"b": 1, "a": 2}, "t": true})");
  inputs.bos_token = "<s>";
  inputs.eos_token = "</s>";
  inputs.now_unix_s = 1'700'000'000;
  return inputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemplateInputs inputs = fixed_inputs();
  TemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 20;
  limits.max_memory_bytes = 8 << 20;
  const auto chat_template =
      ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size), limits);
  const auto text =
      chat_template ? (*chat_template)->render(inputs) : std::unexpected(chat_template.error());
  if (!text) {
    CERA_ASSERT(text.error().code != cera::ErrorCode::internal && !text.error().where.empty());
    return 0;
  }
  CERA_ASSERT(text->size() <= limits.max_output_bytes);
  CERA_ASSERT(text->empty() ? text->runs().empty() : text->runs().back().end == text->size());
  return 0;
}
