#include "engine/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include <sys/resource.h>

#include "session/random.h"

namespace cera {
namespace {

using text::TokenId;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Ordinary tokens in random order: what the text says does not matter for speed.
std::vector<TokenId> random_tokens(const text::Tokenizer& tokenizer, uint32_t n, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> tokens;
  while (tokens.size() < n) {
    TokenId id = TokenId(random.below(tokenizer.vocab_size()));
    // A vocabulary of specials only would never end: take what comes after a few attempts.
    for (int i = 0; i < 100 && tokenizer.token_kind(id) != text::TokenKind::normal; ++i)
      id = TokenId(random.below(tokenizer.vocab_size()));
    tokens.push_back(id);
  }
  return tokens;
}

struct Timing {
  double prefill_s = 0, first_token_s = 0, decode_s = 0;
};

/// Prompt, first token, then max_tokens decode steps, on a fork of the session.
Result<Timing> time_run(const Session& base, std::span<const TokenId> prompt,
                        const BenchOptions& options,
                        const std::function<void()>& after_prefill = {}) {
  CERA_TRY(Session session, base.fork());
  CERA_TRY(Sampler sampler, Sampler::make({.temperature = 0, .seed = 0}));
  Timing timing;
  const double start = now_s();
  CERA_CHECK(session.append(prompt));
  timing.prefill_s = now_s() - start;
  CERA_CHECK(session.generate(sampler, {.max_tokens = 1, .ignore_end = true}));
  timing.first_token_s = now_s() - start;
  if (after_prefill) after_prefill();
  const double decode_start = now_s();
  CERA_TRY(const GenerateResult result,
           session.generate(sampler, {.max_tokens = options.max_tokens, .ignore_end = true}));
  timing.decode_s = now_s() - decode_start;
  if (result.reason == FinishReason::cancelled) return fail(ErrorCode::cancelled, "", "cancelled");
  return timing;
}

struct Bed {
  Session base;
  std::vector<TokenId> prompt;
};

Result<Bed> make_bed(Engine& engine, const BenchOptions& options) {
  CERA_TRY(Session base, engine.new_session(options.cancel));
  CERA_CHECK(base.append(random_tokens(*engine.tokenizer(), options.depth, 1)));
  return Bed{std::move(base), random_tokens(*engine.tokenizer(), options.prompt_tokens, 2)};
}

/// "linear blk.3.ffn_down.weight Q6_K" without the number of the block, to add up over layers.
std::string without_layer(std::string name) {
  constexpr std::string_view kBlock = "blk.";
  for (size_t at = name.find(kBlock); at != std::string::npos; at = name.find(kBlock, at)) {
    const size_t dot = name.find('.', at + kBlock.size());
    if (dot == std::string::npos) break;
    name.erase(at, dot + 1 - at);
  }
  return name;
}

class OpTimes {
 public:
  void add(const std::vector<OpProfile>& now, const std::vector<OpProfile>& before) {
    for (size_t i = 0; i < now.size(); ++i) {
      const std::string name = without_layer(now[i].name);
      OpTime& t = times_[{name, now[i].kernel}];
      t.name = name;
      t.kernel = now[i].kernel;
      t.seconds += double(now[i].nanoseconds - before[i].nanoseconds) * 1e-9;
      t.calls += now[i].calls - before[i].calls;
    }
  }
  std::vector<OpTime> sorted() const {
    std::vector<OpTime> result;
    for (const auto& [key, time] : times_) result.push_back(time);
    std::sort(result.begin(), result.end(), [](const OpTime& a, const OpTime& b) {
      return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name;
    });
    return result;
  }

 private:
  std::map<std::pair<std::string, std::string>, OpTime> times_;
};

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * double(values.size() - 1);
    const size_t low = size_t(place), high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (place - double(low));
  };
  return {at(0.1), at(0.5), at(0.9)};
}

Result<BenchResult> run_bench(Engine& engine, const BenchOptions& options) {
  CERA_TRY(const Bed bed, make_bed(engine, options));
  std::vector<double> prefill, decode, first;
  const uint32_t all = options.warmup + options.runs;
  for (uint32_t i = 0; i < all; ++i) {
    if (options.progress) options.progress(i, all);
    CERA_TRY(const Timing timing, time_run(bed.base, bed.prompt, options));
    if (i < options.warmup) continue;
    prefill.push_back(options.prompt_tokens / timing.prefill_s);
    first.push_back(timing.first_token_s * 1e3);
    decode.push_back(options.max_tokens / timing.decode_s);
  }
  if (options.progress) options.progress(all, all);
  return BenchResult{percentiles(prefill), percentiles(decode), percentiles(first)};
}

Result<BenchProfile> profile_ops(Engine& engine, const BenchOptions& options) {
  CERA_TRY(const Bed bed, make_bed(engine, options));
  Executable& executable = engine.runner().executable();
  executable.set_profiling(true);
  const std::vector<OpProfile> start = executable.profile();
  std::vector<OpProfile> middle;
  auto timing = time_run(bed.base, bed.prompt, options, [&] { middle = executable.profile(); });
  const std::vector<OpProfile> end = executable.profile();
  executable.set_profiling(false);
  if (!timing) return std::unexpected(std::move(timing).error());
  OpTimes prefill, decode;
  prefill.add(middle, start);
  decode.add(end, middle);
  return BenchProfile{prefill.sorted(), decode.sorted()};
}

TokenCost token_cost(const Plan& plan) {
  TokenCost cost;
  const auto add = [&](const Weight& w) {
    cost.weight_bytes += uint64_t(w.n_rows) * w.row_bytes;
    cost.ops += uint64_t(2) * w.n_rows * w.n_cols;
  };
  for (const Op& op : plan.ops) {
    if (const auto* linear = std::get_if<LinearOp>(&op)) {
      for (const Weight& w : linear->weights) add(w);
    } else if (const auto* glu = std::get_if<LinearGluOp>(&op)) {
      add(glu->gate);
      add(glu->up);
    }
  }
  return cost;
}

uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) * 1024;
}

}  // namespace cera
