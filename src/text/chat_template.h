#pragma once
// tokenizer.chat_template: Jinja as transformers configures it (trim_blocks, lstrip_blocks, loop
// controls, tojson, raise_exception, strftime_now, generation blocks), by our own evaluator in
// text/jinja/. The evaluator has no access to anything but its inputs, and limits steps, depth and
// output.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "text/span_text.h"

namespace cera::text {

struct TemplateInputs {
  // An array of OpenAI-style messages {role, content (string | null | parts), tool_calls?,
  // tool_call_id?, name?, ...}, passed to the template as it is. Every string in it is `content` by
  // origin, except a `role` of letters, digits, '_' and '-', which is template text. Null: no
  // messages.
  std::shared_ptr<const nlohmann::ordered_json> messages;
  std::shared_ptr<const nlohmann::ordered_json>
      tools;  // null, or an array of function schemas; content
  std::shared_ptr<const nlohmann::ordered_json>
      arguments;  // extra variables (--template-arg); content. An
                  // object; may not name messages or tools
  bool add_generation_prompt = true;
  std::string bos_token;  // template text
  std::string eos_token;  // template text
  /// strftime_now; default: the local clock. Tests freeze it.
  std::optional<int64_t> now_unix_s;
};

struct TemplateLimits {
  uint64_t max_steps = 10'000'000;  // about one per evaluated node, or per 64 bytes of text moved
  uint32_t max_depth = 200;         // of blocks and brackets, of values, of JSON in the inputs
  size_t max_source_bytes = 1u << 20;
  size_t max_output_bytes = 64u << 20;   // also of any other text that the template builds
  size_t max_memory_bytes = 256u << 20;  // that the template's own values hold at one time
};

/// A parsed template; immutable, safe to use from any thread.
class ChatTemplate {
 public:
  /// Errors carry "line L, column C" in `where`, here and in render(). A conversation that the
  /// template itself refuses (raise_exception) is an invalid_argument with the template's message.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string source,
                                                           TemplateLimits limits = {});
  virtual ~ChatTemplate() = default;
  virtual Result<SpanText> render(const TemplateInputs& inputs) const = 0;
  virtual const std::string& source() const = 0;
};

}  // namespace cera::text
