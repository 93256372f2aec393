#include "engine/bench.h"

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/roofs.h"

namespace cera::cli {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const Percentiles& p) {
  return {{"p10", p.p10}, {"p50", p.p50}, {"p90", p.p90}};
}

ordered_json to_json(const std::vector<OpTime>& times) {
  ordered_json out = ordered_json::array();
  for (const OpTime& t : times)
    out.push_back(
        {{"op", t.name}, {"kernel", t.kernel}, {"ms", t.seconds * 1e3}, {"calls", t.calls}});
  return out;
}

std::string to_text(const char* title, const std::vector<OpTime>& times) {
  double total = 0;
  for (const OpTime& t : times) total += t.seconds;
  std::string out = fmt::format("{}: {:.1f} ms in ops\n", title, total * 1e3);
  for (const OpTime& t : times)
    out += fmt::format("  {:5.1f} %  {:9.2f} ms  {:6} x  {:<40} {}\n",
                       total > 0 ? t.seconds / total * 100 : 0.0, t.seconds * 1e3, t.calls, t.name,
                       t.kernel);
  return out;
}

/// Speeds against what the machine can do.
struct Achieved {
  Roofs roofs;
  double decode_gb_s, prefill_gops;
};

struct Bench {
  explicit Bench(CLI::App& app) : model(app) {
    const auto count = [&](const char* name, uint32_t& value, const char* what) {
      app.add_option(name, value, what)->check(CLI::Range(1u, 1u << 24))->capture_default_str();
    };
    count("--prompt-tokens", bench.prompt_tokens, "Tokens of the prompt");
    count("--max-tokens", bench.max_tokens, "Decode steps");
    app.add_option("--depth", bench.depth, "Tokens in the context before the prompt")
        ->check(CLI::Range(0u, 1u << 24))
        ->capture_default_str();
    count("--runs", bench.runs, "Measured runs");
    app.add_option("--warmup", bench.warmup, "Runs before those")
        ->check(CLI::Range(0u, 1000u))
        ->capture_default_str();
    app.add_flag("--json", json, "One JSON object");
    app.add_flag("--explain", explain, "Also the time of each op");
  }

  Result<void> run() {
    EngineOptions options = model.engine();
    const uint32_t needed = bench.depth + bench.prompt_tokens + bench.max_tokens + 2;
    if (options.context_size == 0) options.context_size = std::max(needed, kMinContextSize);
    if (options.context_size < needed)
      return fail(ErrorCode::invalid_argument, "--context-size", "{} is too small for {} tokens",
                  options.context_size, needed);
    options.n_sequences = kBenchSequences;
    bench.cancel = &interrupted();
    CERA_TRY(const auto engine, Engine::open(options));
    CERA_TRY(const BenchResult result, measure(*engine));
    const uint64_t peak = peak_rss_bytes();  // before the roofs take memory
    std::optional<BenchProfile> profile;
    if (explain) {
      CERA_TRY(profile, profile_ops(*engine, bench));
    }
    ThreadPool pool(engine->cpu().threads.threads);
    const Achieved achieved = compare(*engine, result, measure_roofs(pool, engine->cpu().tier));
    return write_stdout(json ? as_json(*engine, result, achieved, peak, profile)
                             : as_text(*engine, result, achieved, peak, profile));
  }

  Result<BenchResult> measure(Engine& engine) {
    Progress progress("run");
    bench.progress = [&](uint32_t done, uint32_t all) { progress.update(done, all); };
    auto result = run_bench(engine, bench);
    bench.progress = {};
    return result;
  }

  Achieved compare(const Engine& engine, const BenchResult& result, const Roofs& roofs) const {
    const Plan& plan = engine.model().plan();
    const TokenCost cost = token_cost(plan);
    const uint64_t cells = bench.depth + bench.prompt_tokens + bench.max_tokens / 2;
    const uint64_t bytes = cost.weight_bytes + kv_bytes(plan.state, model.engine().kv_type, cells);
    return {roofs, double(bytes) * result.decode_tok_s.p50 / 1e9,
            double(cost.ops) * result.prefill_tok_s.p50 / 1e9};
  }

  std::string as_json(const Engine& engine, const BenchResult& r, const Achieved& a, uint64_t peak,
                      const std::optional<BenchProfile>& profile) const {
    ordered_json out = {{"prefill_tok_s", to_json(r.prefill_tok_s)},
                        {"decode_tok_s", to_json(r.decode_tok_s)},
                        {"ttft_ms", to_json(r.ttft_ms)},
                        {"peak_rss_bytes", peak},
                        {"threads", engine.cpu().threads.threads},
                        {"device", "cpu"},
                        {"tier", tier_name(engine.cpu().tier)},
                        {"model", model.path()},
                        {"prompt_tokens", bench.prompt_tokens},
                        {"max_tokens", bench.max_tokens},
                        {"depth", bench.depth},
                        {"runs", bench.runs},
                        {"decode_gb_s", a.decode_gb_s},
                        {"prefill_gops", a.prefill_gops},
                        {"roof_read_gb_s", a.roofs.read_gb_s},
                        {"roof_int8_gops", a.roofs.int8_gops},
                        {"roof_f32_gflops", a.roofs.f32_gflops}};
    if (profile)
      out["ops"] = {{"prefill", to_json(profile->prefill)}, {"decode", to_json(profile->decode)}};
    return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }

  std::string as_text(const Engine& engine, const BenchResult& r, const Achieved& a, uint64_t peak,
                      const std::optional<BenchProfile>& profile) const {
    const auto line = [](const char* name, const Percentiles& p, const char* unit) {
      return fmt::format("{:<12} {:9.1f} {:9.1f} {:9.1f}  {}\n", name, p.p10, p.p50, p.p90, unit);
    };
    std::string out = fmt::format(
        "{}: cpu ({}, {} threads), {} prompt tokens, {} decoded, depth {}, {} runs\n",
        one_line(model.path()), tier_name(engine.cpu().tier), engine.cpu().threads.threads,
        bench.prompt_tokens, bench.max_tokens, bench.depth, bench.runs);
    out += fmt::format("{:<12} {:>9} {:>9} {:>9}\n", "", "p10", "p50", "p90");
    out += line("prefill", r.prefill_tok_s, "tok/s");
    out += line("decode", r.decode_tok_s, "tok/s");
    out += line("first token", r.ttft_ms, "ms");
    out += fmt::format("peak memory  {:.1f} MiB\n", double(peak) / (1 << 20));
    out += fmt::format("decode       {:.1f} GB/s, {:.0f} % of the {:.1f} measured now\n",
                       a.decode_gb_s, a.decode_gb_s / a.roofs.read_gb_s * 100, a.roofs.read_gb_s);
    out += fmt::format(
        "prefill      {:.0f} GOPS, {:.0f} % of {:.0f} in int8, {:.0f} % of {:.0f} in f32\n",
        a.prefill_gops, a.prefill_gops / a.roofs.int8_gops * 100, a.roofs.int8_gops,
        a.prefill_gops / a.roofs.f32_gflops * 100, a.roofs.f32_gflops);
    if (profile) out += to_text("prefill", profile->prefill) + to_text("decode", profile->decode);
    return out;
  }

  ModelOptions model;
  BenchOptions bench;
  bool json = false, explain = false;
};

}  // namespace

Command make_bench(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("bench", "Measure the speed of a model on this machine");
  auto command = std::make_shared<Bench>(*app);
  return {app, [command] { return command->run(); }};
}

}  // namespace cera::cli
