#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>

#include "ops/math.h"

namespace cera {
namespace {

using text::TokenId;

/// Sums of x and x^2, for means and their standard errors.
struct Moments {
  double sum = 0, sum_of_squares = 0;
  uint64_t n = 0;

  void add(double x) {
    sum += x;
    sum_of_squares += x * x;
    ++n;
  }
  double mean() const { return n == 0 ? 0 : sum / double(n); }
  double error() const {
    if (n < 2) return 0;
    const double variance = sum_of_squares / double(n) - mean() * mean();
    return std::sqrt(std::max(variance, 0.0) / double(n - 1));
  }
};

/// A row of our logits with what turns them into log-probabilities.
struct OurRow {
  std::span<const float> logits;
  float max;
  size_t argmax;
  double log_sum_exp;  // of logits - max
  double log_p(size_t token) const { return double(logits[token] - max) - log_sum_exp; }
};

Result<OurRow> read_row(std::span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += double(math::exp(x - *best));
  if (!std::isfinite(sum))
    return fail(ErrorCode::numeric, "logits", "the model produced a value that is not finite");
  return OurRow{logits, *best, size_t(best - logits.begin()), std::log(sum)};
}

class Comparison {
 public:
  void add(const OurRow& ours, const StoredRow& reference, TokenId target) {
    nll_.add(-double(reference.log_p(size_t(target))));
    double kl = 0;
    uint16_t top = 0, second = 0;
    size_t argmax = 0;
    for (size_t i = 0; i < ours.logits.size(); ++i) {
      const uint16_t code = reference.code(i);
      if (code > top || i == 0) {
        second = i == 0 ? uint16_t(0) : top;
        top = code;
        argmax = i;
      } else {
        second = std::max(second, code);
      }
      if (reference.clipped(i)) {
        ++clipped_;
        continue;
      }
      const float log_p = reference.log_p(i);
      kl += double(math::exp(log_p)) * (double(log_p) - ours.log_p(i));
    }
    kl_.add(kl);
    max_kl_ = std::max(max_kl_, kl);
    const bool same = argmax == ours.argmax,
               clear = float(top - second) * reference.scale() > kClearGap;
    same_ += same;
    clear_ += clear;
    same_clear_ += same && clear;
  }

  ReferenceComparison result() const {
    const auto share = [](uint64_t part, uint64_t all) {
      return all == 0 ? 1.0 : double(part) / double(all);
    };
    return {.perplexity = std::exp(nll_.mean()),
            .mean_kl = kl_.mean(),
            .max_kl = max_kl_,
            .kl_error = kl_.error(),
            .same_top1 = share(same_, kl_.n),
            .same_top1_clear = share(same_clear_, clear_),
            .clear_positions = clear_,
            .clipped_entries = clipped_};
  }

 private:
  Moments nll_, kl_;
  double max_kl_ = 0;
  uint64_t same_ = 0, clear_ = 0, same_clear_ = 0, clipped_ = 0;
};

class Measurement {
 public:
  Measurement(Engine& engine, uint32_t n_ctx, const PerplexityOptions& options)
      : engine_(engine), n_ctx_(n_ctx), options_(options) {}

  Result<void> open_output(std::span<const TokenId> tokens) {
    if (options_.save_path.empty()) return {};
    return writer_.open(options_.save_path, n_ctx_, engine_.runner().vocab_size(), tokens);
  }

  Result<void> add_chunk(uint32_t chunk, std::span<const TokenId> tokens) {
    std::vector<TokenId> input(tokens.begin(), tokens.end() - 1);
    const auto bos = engine_.tokenizer()->bos();
    if (engine_.tokenizer()->add_bos() && bos) input.front() = *bos;
    CERA_TRY(Sequence sequence, engine_.runner().new_sequence());
    const uint32_t first = n_ctx_ / 2, end = n_ctx_ - 1;
    for (uint32_t done = 0; done < end;) {
      if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed))
        return fail(ErrorCode::cancelled, "", "cancelled");
      const bool scored = done >= first;
      const uint32_t n = scored ? std::min(end - done, kPerplexityOutputs)
                                : std::min(first - done, engine_.runner().options().max_rows);
      const RunInput step{&sequence, std::span<const TokenId>(input).subspan(done, n),
                          scored ? n : 0};
      CERA_CHECK(engine_.runner().run({&step, 1}));
      for (uint32_t i = 0; scored && i < n; ++i)
        CERA_CHECK(
            score(engine_.runner().logits(i), chunk, done + i - first, tokens[done + i + 1]));
      done += n;
    }
    return {};
  }

  Result<PerplexityResult> finish(uint32_t n_chunks) {
    if (!options_.save_path.empty()) CERA_CHECK(writer_.close());
    PerplexityResult result;
    result.perplexity = perplexity();
    result.perplexity_error = nll_.error() * result.perplexity;
    result.n_ctx = n_ctx_;
    result.n_chunks = n_chunks;
    result.positions = nll_.n;
    if (options_.reference != nullptr) result.reference = comparison_.result();
    return result;
  }

  double perplexity() const { return std::exp(nll_.mean()); }

 private:
  Result<void> score(std::span<const float> logits, uint32_t chunk, uint32_t position,
                     TokenId target) {
    CERA_TRY(const OurRow row, read_row(logits));
    nll_.add(-row.log_p(size_t(target)));
    if (options_.reference != nullptr)
      comparison_.add(row, options_.reference->row(chunk, position), target);
    if (!options_.save_path.empty()) writer_.add_row(row.logits, row.max, row.log_sum_exp);
    return {};
  }

  Engine& engine_;
  uint32_t n_ctx_;
  const PerplexityOptions& options_;
  Moments nll_;
  Comparison comparison_;
  LogitsFileWriter writer_;
};

}  // namespace

Result<Prompt> encode_for_perplexity(const Engine& engine, std::string_view text) {
  const text::Tokenizer& tokenizer = *engine.tokenizer();
  if (tokenizer.add_eos())
    return fail(ErrorCode::unsupported, "tokenizer.ggml.add_eos_token",
                "perplexity is not defined for models that end every text with an end token");
  CERA_TRY(text::Encoding encoding,
           tokenizer.encode(text::SpanText(std::string(text), text::Origin::content)));
  Prompt prompt{std::move(encoding.ids), encoding.invalid_bytes};
  if (tokenizer.add_bos() && tokenizer.bos())
    prompt.ids.insert(prompt.ids.begin(), *tokenizer.bos());
  return prompt;
}

Result<PerplexityResult> measure_perplexity(Engine& engine, std::span<const TokenId> tokens,
                                            uint32_t n_ctx, const PerplexityOptions& options) {
  const uint32_t vocab_size = engine.runner().vocab_size();
  if (options.reference != nullptr && options.reference->n_vocab() != vocab_size)
    return fail(ErrorCode::invalid_argument, "reference",
                "it is of another model: its vocabulary has {} tokens, this one has {}",
                options.reference->n_vocab(), vocab_size);
  if (tokens.size() < n_ctx)
    return fail(
        ErrorCode::invalid_argument, "text",
        "{} tokens do not fill one chunk of {}; use a longer text or a smaller --context-size",
        tokens.size(), n_ctx);
  for (const TokenId token : tokens)
    if (token < 0 || uint32_t(token) >= vocab_size)
      return fail(ErrorCode::invalid_argument, "text", "token {} is not in the vocabulary of {}",
                  token, vocab_size);
  uint32_t n_chunks = uint32_t(tokens.size() / n_ctx);
  if (options.max_chunks != 0) n_chunks = std::min(n_chunks, options.max_chunks);

  Measurement measurement(engine, n_ctx, options);
  CERA_CHECK(measurement.open_output(tokens.first(size_t(n_chunks) * n_ctx)));
  for (uint32_t chunk = 0; chunk < n_chunks; ++chunk) {
    CERA_CHECK(measurement.add_chunk(chunk, tokens.subspan(size_t(chunk) * n_ctx, n_ctx)));
    if (options.progress) options.progress(chunk + 1, n_chunks, measurement.perplexity());
  }
  return measurement.finish(n_chunks);
}

}  // namespace cera
