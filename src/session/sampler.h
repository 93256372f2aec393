#pragma once
// From logits to a token id. The order of the steps is fixed and part of the contract:
//
//   1. check      NaN or +inf anywhere, or nothing but -inf: an error (numeric); -inf alone means
//   "never"
//   2. bias       logit + bias of that token
//   3. penalties  over the last penalty_window tokens of prompt and output: repetition (a positive
//   logit is
//                 divided, another multiplied), then - frequency * count, then - presence
//   4. temperature 0: the largest logit wins, the lowest id on ties; done
//   5. temperature  logits / temperature
//   6. top-k      the k largest, the lowest ids on ties
//   7. top-p      the shortest run of the most likely whose probability reaches top_p
//   8. min-p      those with at least min_p times the largest probability
//   9. draw       one random number, even if one candidate is left
//
// Each filter keeps at least one candidate.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "session/random.h"
#include "text/tokenizer.h"

namespace cera {

struct LogitBias {
  text::TokenId token;
  float bias;  // finite, or -infinity to forbid the token
};

struct SamplerOptions {
  float temperature = 0.7f;         // >= 0; 0 = greedy
  uint32_t top_k = 40;              // 0 = off
  float top_p = 0.95f;              // in [0, 1]; 1 = off
  float min_p = 0.05f;              // >= 0; 0 = off; 1 and more leave the most likely token
  float repetition_penalty = 1.0f;  // > 0; 1 = off
  float frequency_penalty = 0.0f;   // 0 = off
  float presence_penalty = 0.0f;    // 0 = off
  uint32_t penalty_window = 256;    // tokens; 0 = all
  std::vector<LogitBias> logit_bias = {};
  std::optional<uint64_t> seed = {};  // absent: a fresh one, see Sampler::seed
};

/// The first setting out of range, by its name.
Result<void> validate(const SamplerOptions& options);

/// One per stream of text; not thread-safe. Allocates on its first calls only.
class Sampler {
 public:
  static Result<Sampler> make(const SamplerOptions& options);

  /// logits: [vocab]; history: prompt and output so far, ids outside the vocabulary are ignored.
  Result<text::TokenId> sample(std::span<const float> logits,
                               std::span<const text::TokenId> history);

  /// The seed in use: giving it again repeats the draws.
  uint64_t seed() const { return seed_; }

 private:
  struct Candidate {
    float logit;
    text::TokenId id;
    float weight;  // exp((logit - max) / temperature)
  };

  Sampler(const SamplerOptions& options, uint64_t seed);
  bool edits_logits() const;
  Result<std::span<const float>> edited(std::span<const float> logits,
                                        std::span<const text::TokenId> history);
  float penalised(float logit, uint32_t count) const;
  void select(std::span<const float> logits);
  void weigh(float max);
  void cut_top_p();
  void cut_min_p();
  text::TokenId draw();

  SamplerOptions options_;
  uint64_t seed_;
  Random random_;
  std::vector<float> edited_;           // [vocab], only with bias or penalties
  std::vector<uint32_t> counts_;        // [vocab], zero between calls
  std::vector<text::TokenId> counted_;  // ids with a count
  std::vector<Candidate> candidates_, scratch_;
};

}  // namespace cera
