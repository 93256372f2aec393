#include "session/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/assert.h"
#include "ops/math.h"

namespace cera {
namespace {

using text::TokenId;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What a scan over all logits finds.
struct Scan {
  bool bad = false;  // NaN or +inf somewhere
  float max = -kInfinity;
  TokenId argmax = -1;  // the lowest id with `max`; -1 when all are -inf
};

Scan scan(std::span<const float> logits) {
  constexpr size_t kLanes = 8;  // independent chains: the loop is bound by latency otherwise
  uint32_t bad[kLanes] = {};
  float max[kLanes];
  std::fill_n(max, kLanes, -kInfinity);
  const auto visit = [&](float x, size_t lane) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    bad[lane] |= uint32_t((bits & 0x7fffffffu) >= 0x7f800000u) & uint32_t(bits != 0xff800000u);
    max[lane] = x > max[lane] ? x : max[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) visit(logits[i + lane], lane);
  for (; i < logits.size(); ++i) visit(logits[i], 0);

  Scan result;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result.bad |= bad[lane] != 0;
    result.max = std::max(result.max, max[lane]);
  }
  if (!result.bad && result.max > -kInfinity)
    result.argmax = TokenId(std::find(logits.begin(), logits.end(), result.max) - logits.begin());
  return result;
}

/// Larger logit first, then lower id.
constexpr auto better = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

Result<void> require(bool good, const char* name, const char* rule, float value) {
  if (good) return {};
  return fail(ErrorCode::invalid_argument, name, "{} is out of range: it must be {}", value, rule);
}

uint64_t fresh_seed() {
  std::random_device device;
  return (uint64_t(device()) << 32) | device();
}

}  // namespace

Result<void> validate(const SamplerOptions& o) {
  CERA_CHECK(require(std::isfinite(o.temperature) && o.temperature >= 0, "temperature",
                     "0 (greedy) or more", o.temperature));
  CERA_CHECK(require(o.top_p >= 0 && o.top_p <= 1, "top_p", "from 0 to 1", o.top_p));
  CERA_CHECK(require(std::isfinite(o.min_p) && o.min_p >= 0, "min_p", "0 (off) or more", o.min_p));
  CERA_CHECK(require(std::isfinite(o.repetition_penalty) && o.repetition_penalty > 0,
                     "repetition_penalty", "more than 0 (1 is off)", o.repetition_penalty));
  CERA_CHECK(require(std::isfinite(o.frequency_penalty), "frequency_penalty", "a finite number",
                     o.frequency_penalty));
  CERA_CHECK(require(std::isfinite(o.presence_penalty), "presence_penalty", "a finite number",
                     o.presence_penalty));
  for (const LogitBias& b : o.logit_bias)
    CERA_CHECK(
        require(b.bias < kInfinity, "logit_bias", "a number, or -inf to forbid a token", b.bias));
  return {};
}

Result<Sampler> Sampler::make(const SamplerOptions& options) {
  CERA_CHECK(validate(options));
  return Sampler(options, options.seed ? *options.seed : fresh_seed());
}

Sampler::Sampler(const SamplerOptions& options, uint64_t seed)
    : options_(options), seed_(seed), random_(seed) {}

bool Sampler::edits_logits() const {
  return !options_.logit_bias.empty() || options_.repetition_penalty != 1 ||
         options_.frequency_penalty != 0 || options_.presence_penalty != 0;
}

Result<TokenId> Sampler::sample(std::span<const float> logits, std::span<const TokenId> history) {
  Scan best = scan(logits);
  if (best.bad)
    return fail(ErrorCode::numeric, "logits",
                "the model produced a value that is not finite; the file may be damaged");
  if (edits_logits()) {
    CERA_TRY(logits, edited(logits, history));
    best = scan(logits);
  }
  if (best.bad)
    return fail(ErrorCode::numeric, "logits", "bias and penalties overflow; use smaller values");
  if (best.argmax < 0)
    return fail(ErrorCode::numeric, "logits", "no token is allowed: every logit is -inf");
  if (options_.temperature == 0) return best.argmax;

  select(logits);
  weigh(best.max);
  cut_top_p();
  cut_min_p();
  return draw();
}

Result<std::span<const float>> Sampler::edited(std::span<const float> logits,
                                               std::span<const TokenId> history) {
  edited_.assign(logits.begin(), logits.end());
  const auto known = [&](TokenId id) { return id >= 0 && size_t(id) < logits.size(); };
  for (const LogitBias& b : options_.logit_bias) {
    if (!known(b.token))
      return fail(ErrorCode::invalid_argument, "logit_bias",
                  "token {} is not in the vocabulary of {}", b.token, logits.size());
    edited_[size_t(b.token)] += b.bias;
  }
  if (options_.penalty_window != 0 && history.size() > options_.penalty_window)
    history = history.last(options_.penalty_window);
  counts_.resize(logits.size());
  counted_.clear();
  for (const TokenId id : history)
    if (known(id) && counts_[size_t(id)]++ == 0) counted_.push_back(id);
  for (const TokenId id : counted_) {
    float& logit = edited_[size_t(id)];
    logit = penalised(logit, std::exchange(counts_[size_t(id)], 0));
  }
  return std::span<const float>(edited_);
}

float Sampler::penalised(float logit, uint32_t count) const {
  const float r = options_.repetition_penalty;
  logit = logit > 0 ? logit / r : logit * r;
  return logit - options_.frequency_penalty * float(count) - options_.presence_penalty;
}

/// Fills candidates_ with those that the filters could keep: sorted with top-k, in any order
/// without.
void Sampler::select(std::span<const float> logits) {
  candidates_.clear();
  const size_t k = options_.top_k;
  if (k != 0 && k < logits.size()) {  // a heap whose front is the worst candidate so far
    for (size_t i = 0; i < logits.size(); ++i) {
      const float logit = logits[i];
      if (candidates_.size() == k) {
        if (logit <= candidates_.front().logit) continue;  // equal: the lower id is already in
        std::pop_heap(candidates_.begin(), candidates_.end(), better);
        candidates_.pop_back();
      } else if (logit == -kInfinity) {
        continue;
      }
      candidates_.push_back({logit, TokenId(i), 0});
      std::push_heap(candidates_.begin(), candidates_.end(), better);
    }
    std::sort_heap(candidates_.begin(), candidates_.end(), better);
    return;
  }
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > -kInfinity) candidates_.push_back({logits[i], TokenId(i), 0});
}

void Sampler::weigh(float max) {
  for (Candidate& c : candidates_) c.weight = math::exp((c.logit - max) / options_.temperature);
}

void Sampler::cut_top_p() {
  if (options_.top_p >= 1 || candidates_.size() < 2) return;
  double total = 0;
  for (const Candidate& c : candidates_) total += double(c.weight);
  const double wanted = double(options_.top_p) * total;
  // All that weigh less than this are together lighter than (1 - top_p): the run ends before them.
  const float least = (1 - options_.top_p) / float(candidates_.size());
  scratch_.clear();
  for (const Candidate& c : candidates_)
    if (c.weight >= least) scratch_.push_back(c);
  // Halves the range in which the run ends until one is left; nothing gets sorted.
  double sum = 0;  // of those before `first`
  auto first = scratch_.begin(), last = scratch_.end();
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, better);
    double part = 0;
    for (auto c = first; c != middle; ++c) part += double(c->weight);
    if (sum + part >= wanted) {
      last = middle;
    } else {
      sum += part;
      first = middle;
    }
  }
  // Their order stays that of select(), so that a draw does not depend on the library's algorithms.
  std::erase_if(candidates_, [&](const Candidate& c) { return better(*first, c); });
}

void Sampler::cut_min_p() {
  if (options_.min_p <= 0) return;
  // The largest weight is exp(0) = 1.
  const float least = std::min(options_.min_p, 1.0f);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < least; });
}

TokenId Sampler::draw() {
  CERA_ASSERT(!candidates_.empty());
  double total = 0;
  for (const Candidate& c : candidates_) total += double(c.weight);
  double left = random_.uniform() * total;
  TokenId id = candidates_.front().id;
  for (const Candidate& c : candidates_) {
    if (c.weight <= 0) continue;
    id = c.id;
    left -= double(c.weight);
    if (left < 0) break;
  }
  return id;
}

}  // namespace cera
