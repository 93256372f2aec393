#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/assert.h"

namespace cera {
namespace {

Result<RopeScaling> parse_scaling(KeyReader& keys) {
  // A factor without a type means linear, in files older than the type.
  CERA_TRY(const std::string name, keys.string_or("rope.scaling.type", "linear"));
  if (name == "none") return RopeScaling::none;
  if (name == "linear") return RopeScaling::linear;
  if (name == "yarn") return RopeScaling::yarn;
  return keys.wrong(ErrorCode::unsupported, "rope.scaling.type",
                    "\"{}\"; this build knows none, linear and yarn", name);
}

Result<double> positive(KeyReader& keys, std::string_view key, double fallback) {
  CERA_TRY(const double value, keys.number_or(key, fallback));
  if (value <= 0) return keys.wrong(ErrorCode::malformed, key, "{} should be above 0", value);
  return value;
}

Result<void> read_yarn(KeyReader& keys, uint32_t context_length, RopeConfig& rope) {
  CERA_TRY(rope.original_context,
           positive(keys, "rope.scaling.original_context_length", context_length));
  CERA_TRY(rope.ext_factor, keys.number_or("rope.scaling.yarn_ext_factor", 1));
  CERA_TRY(rope.beta_fast, positive(keys, "rope.scaling.yarn_beta_fast", 32));
  CERA_TRY(rope.beta_slow, positive(keys, "rope.scaling.yarn_beta_slow", 1));
  if (keys.has("rope.scaling.yarn_attn_factor")) {
    CERA_TRY(rope.yarn_attn_factor, positive(keys, "rope.scaling.yarn_attn_factor", 1));
  }
  if (!keys.is_neutral("rope.scaling.yarn_log_multiplier", 0))
    return keys.wrong(ErrorCode::unsupported, "rope.scaling.yarn_log_multiplier",
                      "this build does not compute YaRN's log multiplier");
  if (rope.base <= 1)
    return keys.wrong(ErrorCode::malformed, "rope.freq_base", "YaRN needs a base above 1");
  return {};
}

/// How much of the unscaled frequency pair i keeps under YaRN, in [0, ext_factor].
double yarn_keep(const RopeConfig& rope, uint32_t pair) {
  const double n = rope.n_dims;
  const auto pair_of_turns = [&](double turns) {
    return n * std::log(rope.original_context / (2 * std::numbers::pi * turns)) /
           (2 * std::log(rope.base));
  };
  const double low = std::max(0.0, std::floor(pair_of_turns(rope.beta_fast)));
  const double high = std::min(n - 1, std::ceil(pair_of_turns(rope.beta_slow)));
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return rope.ext_factor * (1 - std::clamp(ramp, 0.0, 1.0));
}

}  // namespace

Result<RopeConfig> read_rope_config(KeyReader& keys, uint32_t head_dim, uint32_t context_length) {
  RopeConfig rope;
  CERA_TRY(rope.n_dims, keys.uint_or("rope.dimension_count", head_dim));
  if (rope.n_dims == 0 || rope.n_dims % 2 != 0 || rope.n_dims > head_dim)
    return keys.wrong(ErrorCode::malformed, "rope.dimension_count",
                      "{} should be even and at most the head size {}", rope.n_dims, head_dim);
  CERA_TRY(rope.base, positive(keys, "rope.freq_base", 10000));
  CERA_TRY(rope.scaling, parse_scaling(keys));
  CERA_TRY(const double older_key, keys.number_or("rope.scale_linear", 0));
  CERA_TRY(const double factor, keys.number_or("rope.scaling.factor", older_key));
  if (factor < 0)
    return keys.wrong(ErrorCode::malformed, "rope.scaling.factor", "{} is negative", factor);
  if (rope.scaling != RopeScaling::none && factor != 0) rope.factor = factor;  // 0 is "not set"
  CERA_TRY(rope.attn_factor, positive(keys, "rope.scaling.attn_factor", 1));
  if (!keys.is_neutral("rope.scaling.alpha", 0))
    return keys.wrong(ErrorCode::unsupported, "rope.scaling.alpha",
                      "this build does not compute NTK-aware alpha scaling");
  if (rope.scaling == RopeScaling::yarn) CERA_CHECK(read_yarn(keys, context_length, rope));
  return rope;
}

RopeSpec make_rope(const RopeConfig& config, RopePairs pairs, Vector factors) {
  const uint32_t n_pairs = config.n_dims / 2;
  CERA_ASSERT(factors.empty() || factors.size() == n_pairs);
  RopeSpec spec{.pairs = pairs, .n_dims = config.n_dims, .frequencies = {}, .magnitude = 1};
  for (uint32_t pair = 0; pair < n_pairs; ++pair) {
    double frequency = std::pow(config.base, -2.0 * pair / config.n_dims);
    if (!factors.empty()) frequency /= factors[pair];
    const double keep = config.scaling == RopeScaling::yarn ? yarn_keep(config, pair) : 0.0;
    spec.frequencies.push_back(frequency * keep + frequency / config.factor * (1 - keep));
  }
  double magnitude = config.attn_factor;
  if (config.scaling == RopeScaling::yarn && config.ext_factor != 0)
    magnitude *= config.yarn_attn_factor.value_or(0.1 * std::log(std::max(1.0, config.factor)) + 1);
  spec.magnitude = float(magnitude);
  return spec;
}

}  // namespace cera
