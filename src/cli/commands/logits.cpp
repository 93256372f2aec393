#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"

namespace cera::cli {
namespace {

struct Logits {
  explicit Logits(CLI::App& app) : model(app), source(app, "-p,--prompt", "A raw prompt") {
    app.add_option("--top-k", top_k, "Only the K largest, as [[id, logit], ...]; 0 prints all")
        ->capture_default_str();
    app.add_flag("--json", json, "The output is JSON in any case; accepted for clarity");
  }

  Result<void> run() const {
    CERA_TRY(const std::string text, source.read());
    CERA_TRY(const auto engine, Engine::open(model.engine()));
    CERA_TRY(const Prompt prompt, engine->encode_raw(text));
    report_invalid_bytes(prompt.invalid_bytes);
    CERA_TRY(Session session, engine->new_session(&interrupted()));
    CERA_CHECK(session.append(prompt.ids));
    CERA_TRY(const auto logits, session.logits());
    const auto bad = std::ranges::count_if(logits, [](float x) { return !std::isfinite(x); });
    if (bad != 0)
      return fail(ErrorCode::numeric, "logits", "{} of {} are not finite; the file may be damaged",
                  bad, logits.size());
    return write_stdout(top_k == 0 ? all_of(logits) : top_of(logits));
  }

  static std::string all_of(std::span<const float> logits) {
    std::string out = "[";
    for (size_t i = 0; i < logits.size(); ++i)
      fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ", ", logits[i]);
    return out + "]\n";
  }

  std::string top_of(std::span<const float> logits) const {
    std::vector<uint32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0u);
    const size_t n = std::min<size_t>(top_k, ids.size());
    std::partial_sort(ids.begin(), ids.begin() + ptrdiff_t(n), ids.end(),
                      [&](uint32_t a, uint32_t b) {
                        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
                      });
    std::string out = "[";
    for (size_t i = 0; i < n; ++i)
      fmt::format_to(std::back_inserter(out), "{}[{}, {}]", i == 0 ? "" : ", ", ids[i],
                     logits[ids[i]]);
    return out + "]\n";
  }

  ModelOptions model;
  TextSource source;
  uint32_t top_k = 0;
  bool json = false;
};

}  // namespace

Command make_logits(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("logits", "Print the next-token logits of a raw prompt as JSON");
  auto command = std::make_shared<Logits>(*app);
  return {app, [command] { return command->run(); }};
}

}  // namespace cera::cli
