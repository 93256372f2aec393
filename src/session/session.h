#pragma once
// One conversation or completion on a Runner: tokens in, tokens and text out.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "session/runner.h"
#include "session/sampler.h"
#include "text/tokenizer.h"

namespace cera {

enum class FinishReason : uint8_t { stop_token, stop_string, max_tokens, context_full, cancelled };
std::string_view finish_reason_name(FinishReason reason);  // "stop_token" ...

struct GenerateOptions {
  uint32_t max_tokens = 256;
  std::vector<std::string> stop = {};  // text; see StopFilter
  bool ignore_end = false;             // go on after end-of-generation tokens (benchmarks)
};

/// Text that became final with token `id`; may be empty. The last call of a stream may flush text
/// that was held back. Returning false cancels.
using TextSink = std::function<bool(std::string_view text, text::TokenId id)>;

/// Called after each chunk of a prompt with the tokens run and wanted.
using PrefillProgress = std::function<void(size_t done, size_t all)>;

struct GenerateResult {
  FinishReason reason = FinishReason::max_tokens;
  std::vector<text::TokenId> tokens;  // sampled, without an end-of-generation token
};

/// Times of a session since its start, in seconds.
struct SessionStats {
  uint64_t prompt_tokens = 0;  // run by append and logits
  double prompt_s = 0;
  uint64_t decode_tokens = 0;  // run by generate
  double decode_s = 0;         // with sampling and the sink
};

/// Not thread-safe, except that `cancel` may be set from anywhere at any time.
///
/// tokens() is the truth; which of them have been run is known to the sequence. Prompt and output
/// together take at most context_size() tokens.
class Session {
 public:
  /// cancel: polled between chunks and tokens; may be null; outlives the session.
  static Result<Session> make(std::shared_ptr<Runner> runner,
                              std::shared_ptr<const text::Tokenizer> tokenizer,
                              const std::atomic<bool>* cancel = nullptr);

  /// Appends and runs tokens in chunks. Too many for the context: context_full with both numbers,
  /// nothing appended. Cancelled between chunks: `cancelled`; what has been run stays, the rest is
  /// dropped.
  Result<void> append(std::span<const text::TokenId> tokens, const PrefillProgress& progress = {});

  /// [vocab] logits for the token after tokens(), which must not be empty. Valid until the session
  /// changes.
  Result<std::span<const float>> logits();

  /// Samples until something ends it. The output is part of tokens() afterwards.
  Result<GenerateResult> generate(Sampler& sampler, const GenerateOptions& options,
                                  const TextSink& sink = {});

  /// Another session with the same past, sharing its pages.
  Result<Session> fork() const;
  /// Forgets the tokens from n on.
  void truncate(size_t n);
  void clear() { truncate(0); }

  const std::vector<text::TokenId>& tokens() const { return tokens_; }
  uint32_t context_size() const { return sequence_.max_length(); }
  const SessionStats& stats() const { return stats_; }

 private:
  Session(std::shared_ptr<Runner> runner, std::shared_ptr<const text::Tokenizer> tokenizer,
          const std::atomic<bool>* cancel, Sequence sequence);
  bool cancelled() const { return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed); }
  Result<void> run_pending(bool is_prompt, const PrefillProgress& progress = {});

  std::shared_ptr<Runner> runner_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::atomic<bool>* cancel_;
  Sequence sequence_;  // after runner_: goes first
  std::vector<text::TokenId> tokens_;
  std::vector<float> logits_;  // [vocab] of the last token, when has_logits_
  bool has_logits_ = false;
  SessionStats stats_;
};

}  // namespace cera
