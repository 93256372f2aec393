#include "session/session.h"

#include <algorithm>
#include <chrono>

#include "base/assert.h"
#include "session/stop.h"

namespace cera {
namespace {

using text::TokenId;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Tokens to the caller's sink: whole code points, without stop strings.
class TextStream {
 public:
  TextStream(std::shared_ptr<const text::Tokenizer> tokenizer, StopFilter filter,
             const TextSink& sink)
      : detokenizer_(std::move(tokenizer)), filter_(std::move(filter)), sink_(sink) {}

  void push(TokenId id) {
    last_ = id;
    emit(filter_.push(detokenizer_.push(id)));
  }
  /// No more tokens: what was held back is either a stop string after all, or text.
  void finish() {
    std::string rest = filter_.push(detokenizer_.finish());
    if (!filter_.stopped()) rest += filter_.finish();
    if (!rest.empty()) emit(rest);
  }
  bool stopped() const { return filter_.stopped(); }
  bool cancelled() const { return cancelled_; }

 private:
  void emit(std::string_view text) {
    if (sink_ && !sink_(text, last_)) cancelled_ = true;
  }

  text::Detokenizer detokenizer_;
  StopFilter filter_;
  const TextSink& sink_;
  TokenId last_ = -1;
  bool cancelled_ = false;
};

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop_token:
      return "stop_token";
    case FinishReason::stop_string:
      return "stop_string";
    case FinishReason::max_tokens:
      return "max_tokens";
    case FinishReason::context_full:
      return "context_full";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "unknown";
}

Result<Session> Session::make(std::shared_ptr<Runner> runner,
                              std::shared_ptr<const text::Tokenizer> tokenizer,
                              const std::atomic<bool>* cancel) {
  CERA_TRY(Sequence sequence, runner->new_sequence());
  return Session(std::move(runner), std::move(tokenizer), cancel, std::move(sequence));
}

Session::Session(std::shared_ptr<Runner> runner, std::shared_ptr<const text::Tokenizer> tokenizer,
                 const std::atomic<bool>* cancel, Sequence sequence)
    : runner_(std::move(runner)),
      tokenizer_(std::move(tokenizer)),
      cancel_(cancel),
      sequence_(std::move(sequence)) {
  tokens_.reserve(sequence_.max_length());
  logits_.resize(runner_->vocab_size());
}

Result<void> Session::append(std::span<const TokenId> tokens, const PrefillProgress& progress) {
  if (tokens.size() > context_size() - tokens_.size())
    return fail(
        ErrorCode::context_full, "prompt",
        "{} tokens do not fit in the context of {}; raise --context-size or shorten the prompt",
        tokens_.size() + tokens.size(), context_size());
  const size_t old_size = tokens_.size();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (!tokens.empty()) has_logits_ = false;
  if (tokens_.empty()) return {};
  auto done = run_pending(true, progress);
  if (!done) tokens_.resize(std::max<size_t>(old_size, sequence_.length()));
  return done;
}

/// Runs the tokens that the sequence has not seen, keeping the logits of the last one.
Result<void> Session::run_pending(bool is_prompt, const PrefillProgress& progress) {
  if (tokens_.empty())
    return fail(ErrorCode::invalid_argument, "prompt",
                "there is nothing to continue: the prompt has no tokens");
  if (has_logits_) return {};
  // The last token's logits were dropped: it has to run again.
  if (sequence_.length() == tokens_.size()) sequence_.truncate(uint32_t(tokens_.size() - 1));
  const Stopwatch watch;
  const size_t n_pending = tokens_.size() - sequence_.length();
  while (sequence_.length() < tokens_.size()) {
    if (cancelled()) return fail(ErrorCode::cancelled, "", "cancelled");
    const auto left = std::span<const TokenId>(tokens_).subspan(sequence_.length());
    const size_t n = std::min<size_t>(left.size(), runner_->options().max_rows);
    const RunInput input{&sequence_, left.first(n), n == left.size() ? 1u : 0u};
    CERA_CHECK(runner_->run({&input, 1}));
    if (progress) progress(n_pending - left.size() + n, n_pending);
  }
  const std::span<const float> row = runner_->logits(0);
  std::copy(row.begin(), row.end(), logits_.begin());
  has_logits_ = true;
  (is_prompt ? stats_.prompt_tokens : stats_.decode_tokens) += n_pending;
  if (is_prompt) stats_.prompt_s += watch.seconds();
  return {};
}

Result<std::span<const float>> Session::logits() {
  CERA_CHECK(run_pending(true));
  return std::span<const float>(logits_);
}

Result<GenerateResult> Session::generate(Sampler& sampler, const GenerateOptions& options,
                                         const TextSink& sink) {
  const Stopwatch watch;
  CERA_TRY(StopFilter filter, StopFilter::make(options.stop));
  TextStream stream(tokenizer_, std::move(filter), sink);
  GenerateResult result;
  result.tokens.reserve(std::min<size_t>(options.max_tokens, context_size() - tokens_.size()));
  while (true) {
    if (cancelled() || stream.cancelled()) {
      result.reason = FinishReason::cancelled;
      break;
    }
    if (result.tokens.size() >= options.max_tokens) {
      result.reason = FinishReason::max_tokens;
      break;
    }
    if (tokens_.size() >= context_size()) {
      result.reason = FinishReason::context_full;
      break;
    }
    if (auto ran = run_pending(false); !ran) {
      if (ran.error().code == ErrorCode::cancelled) continue;
      return std::unexpected(std::move(ran).error());
    }
    CERA_TRY(const TokenId id, sampler.sample(logits_, tokens_));
    if (!options.ignore_end && tokenizer_->is_end_of_generation(id)) {
      result.reason = FinishReason::stop_token;
      break;
    }
    tokens_.push_back(id);
    has_logits_ = false;
    result.tokens.push_back(id);
    stream.push(id);
    if (stream.stopped()) break;
  }
  stream.finish();
  stats_.decode_s += watch.seconds();
  if (stream.stopped()) result.reason = FinishReason::stop_string;
  return result;
}

Result<Session> Session::fork() const {
  CERA_TRY(Sequence sequence, sequence_.fork());
  Session copy(runner_, tokenizer_, cancel_, std::move(sequence));
  copy.tokens_ = tokens_;
  copy.logits_ = logits_;
  copy.has_logits_ = has_logits_;
  return copy;
}

void Session::truncate(size_t n) {
  if (n >= tokens_.size()) return;
  tokens_.resize(n);
  sequence_.truncate(uint32_t(n));
  has_logits_ = false;
}

}  // namespace cera
