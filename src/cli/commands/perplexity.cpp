#include "engine/perplexity.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"

namespace cera::cli {
namespace {

using nlohmann::ordered_json;

constexpr uint32_t kDefaultChunk = 512;

ordered_json to_json(const PerplexityResult& r) {
  ordered_json out = {{"perplexity", r.perplexity},
                      {"perplexity_error", r.perplexity_error},
                      {"positions", r.positions},
                      {"chunks", r.n_chunks},
                      {"context_size", r.n_ctx}};
  if (r.reference)
    out["reference"] = {{"perplexity", r.reference->perplexity},
                        {"mean_kl", r.reference->mean_kl},
                        {"mean_kl_error", r.reference->kl_error},
                        {"max_kl", r.reference->max_kl},
                        {"same_top1", r.reference->same_top1},
                        {"same_top1_clear", r.reference->same_top1_clear},
                        {"clear_positions", r.reference->clear_positions},
                        {"clipped_entries", r.reference->clipped_entries}};
  return out;
}

std::string to_text(const PerplexityResult& r) {
  std::string out =
      fmt::format("perplexity: {:.4f} +/- {:.4f} ({} positions, {} chunks of {} tokens)\n",
                  r.perplexity, r.perplexity_error, r.positions, r.n_chunks, r.n_ctx);
  if (!r.reference) return out;
  const ReferenceComparison& c = *r.reference;
  out += fmt::format("reference:  {:.4f}\n", c.perplexity);
  out += fmt::format(
      "KL:         mean {:.6f} +/- {:.6f}, max {:.4f} nats ({} clipped entries left out)\n",
      c.mean_kl, c.kl_error, c.max_kl, c.clipped_entries);
  out += fmt::format(
      "same top-1: {:.2f} % of all, {:.2f} % of the {} positions with a gap above {} nat\n",
      c.same_top1 * 100, c.same_top1_clear * 100, c.clear_positions, kClearGap);
  return out;
}

struct Perplexity {
  explicit Perplexity(CLI::App& app) : model(app) {
    CLI::Option* file =
        app.add_option("--file", text_path, "Text to predict (one final newline is ignored)");
    app.add_option("--reference", reference_path,
                   "Compare with a file made by llama-perplexity --kl-divergence-base, on its text")
        ->excludes(file);
    app.add_option("--save-logits", save_path, "Write such a file");
    app.add_option("--chunks", max_chunks, "At most this many chunks (default: all)")
        ->check(CLI::PositiveNumber);
    app.add_flag("--json", json, "One JSON object");
  }

  Result<void> run() const {
    std::error_code ignored;  // of files that do not exist yet
    if (std::filesystem::equivalent(reference_path, save_path, ignored))
      return fail(ErrorCode::invalid_argument, "--save-logits", "it would overwrite the reference");
    EngineOptions options = model.engine();
    std::optional<LogitsFile> reference;
    if (!reference_path.empty()) {
      CERA_TRY(reference, LogitsFile::open(reference_path));
      if (options.context_size != 0 && options.context_size != reference->n_ctx())
        return fail(ErrorCode::invalid_argument, "--context-size",
                    "the reference has chunks of {} tokens; leave the option out",
                    reference->n_ctx());
      options.context_size = reference->n_ctx();
    } else if (text_path.empty()) {
      return fail(ErrorCode::invalid_argument, "",
                  "no text given; use --file PATH or --reference PATH");
    }
    if (options.context_size == 0) options.context_size = kDefaultChunk;
    options.max_outputs = kPerplexityOutputs;
    CERA_TRY(const auto engine, Engine::open(options));
    CERA_TRY(const std::vector<text::TokenId> tokens, read_tokens(*engine, reference));
    CERA_TRY(const PerplexityResult result, measure(*engine, tokens, reference));
    return write_stdout(json ? to_json(result).dump() + "\n" : to_text(result));
  }

  Result<std::vector<text::TokenId>> read_tokens(const Engine& engine,
                                                 const std::optional<LogitsFile>& reference) const {
    if (reference) return reference->tokens();
    CERA_TRY(std::string text, read_text(text_path));
    if (text.ends_with('\n')) text.pop_back();  // as llama-perplexity does
    CERA_TRY(Prompt prompt, encode_for_perplexity(engine, text));
    report_invalid_bytes(prompt.invalid_bytes);
    return std::move(prompt.ids);
  }

  Result<PerplexityResult> measure(Engine& engine, std::span<const text::TokenId> tokens,
                                   const std::optional<LogitsFile>& reference) const {
    Progress progress("chunk");
    return measure_perplexity(engine, tokens, engine.context_size(),
                              {.reference = reference ? &*reference : nullptr,
                               .save_path = save_path,
                               .max_chunks = max_chunks,
                               .cancel = &interrupted(),
                               .progress = [&](uint32_t done, uint32_t all, double perplexity) {
                                 progress.update(done, all, fmt::format(": {:.4f}", perplexity));
                               }});
  }

  ModelOptions model;
  std::string text_path, reference_path, save_path;
  uint32_t max_chunks = 0;
  bool json = false;
};

}  // namespace

Command make_perplexity(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("perplexity", "Measure how well the model predicts a text");
  auto command = std::make_shared<Perplexity>(*app);
  return {app, [command] { return command->run(); }};
}

}  // namespace cera::cli
