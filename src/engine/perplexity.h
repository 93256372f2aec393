#pragma once
// How well a model predicts a text, by llama-perplexity's protocol, and how far it is from a
// reference.
//
// The text is encoded as content, BOS first when the file says so, and cut into chunks of n_ctx
// tokens; an incomplete last one is dropped. Each chunk runs on its own, its first token replaced
// by BOS when the file says so; predictions at positions n_ctx / 2 ... n_ctx - 2 are scored.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/logits_file.h"

namespace cera {

/// Against stored log-probabilities. KL is sum p_ref (log p_ref - log p_ours) over the entries that
/// the file does not clip (StoredRow::clipped).
struct ReferenceComparison {
  double perplexity = 0;           // of the reference
  double mean_kl = 0, max_kl = 0;  // nats per position
  double kl_error = 0;             // standard error of the mean
  double same_top1 = 0;            // share of all positions
  double same_top1_clear = 0;      // share of those with a clear winner in the reference
  uint64_t clear_positions = 0;    // top two further apart than kClearGap
  uint64_t clipped_entries = 0;    // left out of the KL sums
};
inline constexpr float kClearGap = 0.2f;  // nats

struct PerplexityResult {
  double perplexity = 0, perplexity_error = 0;
  uint32_t n_ctx = 0, n_chunks = 0;
  uint64_t positions = 0;
  std::optional<ReferenceComparison> reference;
};

struct PerplexityOptions {
  const LogitsFile* reference = nullptr;
  std::string save_path = {};  // empty: do not save
  uint32_t max_chunks = 0;     // 0: all
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(uint32_t done, uint32_t all, double perplexity)> progress =
      {};  // after each chunk
};

/// Rows with logits per step: bounds the memory to this many times the vocabulary.
inline constexpr uint32_t kPerplexityOutputs = 64;

/// Token ids of a text as the protocol wants them.
Result<Prompt> encode_for_perplexity(const Engine& engine, std::string_view text);

/// The engine's context must hold n_ctx tokens, and its runner kPerplexityOutputs outputs.
Result<PerplexityResult> measure_perplexity(Engine& engine, std::span<const text::TokenId> tokens,
                                            uint32_t n_ctx, const PerplexityOptions& options = {});

}  // namespace cera
