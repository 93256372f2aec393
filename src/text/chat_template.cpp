#include "text/chat_template.h"

#include <algorithm>
#include <new>
#include <utility>

#include <nlohmann/json.hpp>

#include "text/jinja/evaluate.h"
#include "text/jinja/inputs.h"

namespace cera::text {
namespace {

using Json = nlohmann::ordered_json;

/// Recursion of the evaluator per level of nesting that the limits allow: a macro that calls itself
/// goes through several statements and expressions each time.
constexpr uint32_t kEvaluationLevelsPerDepth = 3;

std::string place(jinja::Position at) {
  return fmt::format("line {}, column {}", at.line, at.column);
}

/// Runs `work`; what it throws becomes an Error. `reached` is set by `work`: the place of an error
/// that does not carry its own.
template <class Work>
auto guarded(Work work, const std::optional<jinja::Position>& reached) -> Result<decltype(work())> {
  const auto where = [&](const std::optional<jinja::Position>& at) {
    return at ? place(*at) : "chat template";
  };
  try {
    return work();
  } catch (const jinja::Failure& failure) {
    return std::unexpected(
        Error{failure.code, failure.message, where(failure.at ? failure.at : reached)});
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, where(reached), "no memory left for the chat template");
  } catch (const std::exception& error) {
    return fail(ErrorCode::internal, where(reached), "the template engine failed: {}",
                error.what());
  }
}

class ParsedTemplate final : public ChatTemplate {
 public:
  ParsedTemplate(std::string source, jinja::Template tree, TemplateLimits limits)
      : source_(std::move(source)), tree_(std::move(tree)), limits_(limits) {}

  const std::string& source() const override { return source_; }

  Result<SpanText> render(const TemplateInputs& inputs) const override {
    CERA_CHECK(check(inputs));
    std::optional<jinja::Position> reached;
    return guarded([&] { return run(inputs, reached); }, reached);
  }

 private:
  static Result<void> check(const TemplateInputs& inputs) {
    const auto is_list = [](const auto& json) {
      return !json || json->is_null() || json->is_array();
    };
    if (!is_list(inputs.messages))
      return fail(ErrorCode::invalid_argument, "messages", "must be an array");
    if (!is_list(inputs.tools))
      return fail(ErrorCode::invalid_argument, "tools", "must be an array or null");
    if (!inputs.arguments || inputs.arguments->is_null()) return {};
    if (!inputs.arguments->is_object()) {
      return fail(ErrorCode::invalid_argument, "template arguments", "must be an object");
    }
    for (const char* name : {"messages", "tools"}) {
      if (!inputs.arguments->contains(name)) continue;
      return fail(ErrorCode::invalid_argument, "template arguments",
                  "'{}' is not a template argument", name);
    }
    return {};
  }

  SpanText run(const TemplateInputs& inputs, std::optional<jinja::Position>& reached) const {
    jinja::Runtime runtime(limits_.max_steps, limits_.max_memory_bytes, limits_.max_output_bytes,
                           limits_.max_depth);
    runtime.now_unix_s = inputs.now_unix_s;
    jinja::Evaluator evaluator(tree_, runtime, limits_.max_depth * kEvaluationLevelsPerDepth,
                               variables(inputs));
    struct Report {
      const jinja::Evaluator& evaluator;
      std::optional<jinja::Position>& reached;
      ~Report() { reached = evaluator.position(); }
    } const report{evaluator, reached};
    return evaluator.run();
  }

  /// What a template sees, as transformers passes it: tools and documents are none when there are
  /// none.
  jinja::Evaluator::Inputs variables(const TemplateInputs& inputs) const {
    jinja::Evaluator::Inputs variables;
    const auto from = [&](const std::shared_ptr<const Json>& json, const char* name) {
      return json ? jinja::from_json(*json, limits_.max_depth, name) : jinja::Value::none();
    };
    variables["messages"] = jinja::messages_from_json(
        inputs.messages && !inputs.messages->is_null() ? *inputs.messages : Json::array(),
        limits_.max_depth);
    variables["tools"] = from(inputs.tools, "tools");
    variables["documents"] = jinja::Value::none();
    variables["add_generation_prompt"] = jinja::Value::boolean(inputs.add_generation_prompt);
    variables["bos_token"] = jinja::input_text(inputs.bos_token, Origin::template_text);
    variables["eos_token"] = jinja::input_text(inputs.eos_token, Origin::template_text);
    if (inputs.arguments && inputs.arguments->is_object()) {
      for (const auto& [name, value] : inputs.arguments->items()) {
        variables[name] = jinja::from_json(value, limits_.max_depth, name);
      }
    }
    return variables;
  }

  const std::string source_;
  const jinja::Template tree_;
  const TemplateLimits limits_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string source,
                                                                TemplateLimits limits) {
  if (source.size() > limits.max_source_bytes) {
    return fail(ErrorCode::unsupported, "chat template", "it has {} bytes, the limit is {}",
                source.size(), limits.max_source_bytes);
  }
  const auto parse_source = [&]() -> std::shared_ptr<const ChatTemplate> {
    jinja::Template tree = jinja::parse(source, limits.max_depth);
    return std::make_shared<const ParsedTemplate>(std::move(source), std::move(tree), limits);
  };
  return guarded(parse_source, std::nullopt);
}

}  // namespace cera::text
