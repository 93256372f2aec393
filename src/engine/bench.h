#pragma once
// Speed of a model: prefill, decode, time to first token.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace cera {

struct BenchOptions {
  uint32_t prompt_tokens = 512;
  uint32_t max_tokens = 128;  // decode steps
  uint32_t depth = 0;         // tokens in the context before the prompt
  uint32_t runs = 5;
  uint32_t warmup = 1;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(uint32_t done, uint32_t all)> progress = {};
};

struct Percentiles {
  double p10 = 0, p50 = 0, p90 = 0;
};
/// Of sorted or unsorted values, with linear interpolation between neighbours.
Percentiles percentiles(std::vector<double> values);

/// Time of ops that share a name but for the layer.
struct OpTime {
  std::string name;  // "linear ffn_down Q6_K"
  std::string kernel;
  double seconds = 0;
  uint64_t calls = 0;
};

struct BenchResult {
  Percentiles prefill_tok_s, decode_tok_s, ttft_ms;
};

/// The sequences an engine needs for run_bench: the depth, and the run that forks from it.
inline constexpr uint32_t kBenchSequences = 2;

Result<BenchResult> run_bench(Engine& engine, const BenchOptions& options);

/// One more run with times per op; sorted, the slowest first.
struct BenchProfile {
  std::vector<OpTime> prefill, decode;
};
Result<BenchProfile> profile_ops(Engine& engine, const BenchOptions& options);

/// What one token costs by the plan: bytes of weights read, and multiply-adds times two.
struct TokenCost {
  uint64_t weight_bytes = 0;
  uint64_t ops = 0;
};
TokenCost token_cost(const Plan& plan);

/// Highest resident memory of this process so far.
uint64_t peak_rss_bytes();

}  // namespace cera
