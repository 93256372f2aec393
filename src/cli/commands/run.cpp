#include <unistd.h>

#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "session/stop.h"

namespace cera::cli {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// "key=value": the value is JSON when it reads as JSON, else a string.
Result<void> add_template_arg(ordered_json& arguments, const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    return fail(ErrorCode::invalid_argument, "--template-arg",
                "'{}' is not of the form NAME=VALUE, for example enable_thinking=false", text);
  const std::string value = text.substr(at + 1);
  ordered_json parsed = ordered_json::parse(value, nullptr, false);
  arguments[text.substr(0, at)] = parsed.is_discarded() ? ordered_json(value) : std::move(parsed);
  return {};
}

struct Run {
  explicit Run(CLI::App& app)
      : model(app), source(app, "-p,--prompt", "What to say to the model"), sampling(app) {
    CLI::Option* s = app.add_option("--system", system, "System message");
    CLI::Option* r = app.add_flag("--raw", raw, "Complete the prompt as it is: no chat template");
    CLI::Option* t = app.add_option("--chat-template", template_path,
                                    "Jinja file to use instead of the model's");
    CLI::Option* a =
        app.add_option("--template-arg", template_args,
                       "NAME=VALUE for the chat template, repeatable; the value may be JSON");
    a->allow_extra_args(false);
    r->excludes(s)->excludes(t)->excludes(a);
    app.add_option("--max-tokens", generate.max_tokens, "At most this many tokens of output")
        ->capture_default_str();
    app.add_option("--stop", generate.stop, "Text that ends the output, repeatable")
        ->allow_extra_args(false);
    app.add_flag("--ignore-end", generate.ignore_end, "Go on after the model's end tokens");
  }

  Result<void> run() {
    CERA_TRY(const SamplerOptions sampler_options, sampling.get());
    CERA_CHECK(StopFilter::make(generate.stop));
    for (const std::string& arg : template_args) CERA_CHECK(add_template_arg(arguments, arg));
    CERA_TRY(const std::string text, source.read());
    EngineOptions options = model.engine();
    if (!template_path.empty()) {
      CERA_TRY(options.chat_template, read_text(template_path));
    }
    CERA_TRY(const auto engine, Engine::open(options));
    CERA_TRY(const Prompt prompt, encode(*engine, text));
    report_invalid_bytes(prompt.invalid_bytes);
    CERA_TRY(Sampler sampler, Sampler::make(sampler_options));
    return answer(*engine, prompt, sampler);
  }

  Result<Prompt> encode(const Engine& engine, const std::string& text) {
    if (raw) return engine.encode_raw(text);
    if (!engine.has_chat_template()) {
      if (!system.empty() || !template_args.empty())
        return fail(ErrorCode::unsupported, model.path(),
                    "the model has no chat template for --system and --template-arg; give one with "
                    "--chat-template");
      fmt::print(stderr,
                 "note: the model has no chat template, so the prompt is completed as it is\n");
      return engine.encode_raw(text);
    }
    ordered_json messages = ordered_json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", text}});
    return engine.encode_chat(std::move(messages), std::move(arguments));
  }

  Result<void> answer(Engine& engine, const Prompt& prompt, Sampler& sampler) const {
    const auto start = Clock::now();
    CERA_TRY(Session session, engine.new_session(&interrupted()));
    {
      Progress progress("prompt");
      CERA_CHECK(
          session.append(prompt.ids, [&](size_t done, size_t all) { progress.update(done, all); }));
    }
    double first_token_s = 0;
    bool at_line_start = true;
    Result<void> written;
    CERA_TRY(const GenerateResult result,
             session.generate(sampler, generate, [&](std::string_view text, text::TokenId) {
               if (first_token_s == 0) first_token_s = seconds_since(start);
               if (text.empty()) return true;
               at_line_start = text.back() == '\n';
               written = write_stdout(text);
               if (written) written = flush_stdout();
               return written.has_value();
             }));
    CERA_CHECK(written);
    if (!at_line_start && isatty(STDOUT_FILENO) == 1) CERA_CHECK(write_stdout("\n"));
    report(engine, session.stats(), result, sampler.seed(), first_token_s);
    if (result.reason == FinishReason::cancelled)
      return fail(ErrorCode::cancelled, "", "interrupted");
    return {};
  }

  static void report(const Engine& engine, const SessionStats& stats, const GenerateResult& result,
                     uint64_t seed, double first_token_s) {
    const auto rate = [](uint64_t n, double s) { return s > 0 ? double(n) / s : 0.0; };
    fmt::print(stderr,
               "---\n"
               "prompt: {} tokens, {:.1f} tok/s; output: {} tokens, {:.1f} tok/s; first token "
               "after {:.0f} ms\n"
               "seed: {}; finished: {}\n",
               stats.prompt_tokens, rate(stats.prompt_tokens, stats.prompt_s), result.tokens.size(),
               rate(stats.decode_tokens, stats.decode_s), first_token_s * 1e3, seed,
               finish_reason_name(result.reason));
    if (result.reason == FinishReason::context_full)
      fmt::print(
          stderr,
          "note: the context of {} tokens is full, the output is cut; raise --context-size\n",
          engine.context_size());
  }

  ModelOptions model;
  TextSource source;
  SamplingOptions sampling;
  GenerateOptions generate;
  std::string system, template_path;
  std::vector<std::string> template_args;
  ordered_json arguments = ordered_json::object();
  bool raw = false;
};

}  // namespace

Command make_run(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("run", "Answer a prompt, or complete it with --raw");
  auto command = std::make_shared<Run>(*app);
  return {app, [command] { return command->run(); }};
}

}  // namespace cera::cli
