#pragma once
// Rotary position embedding: how the published scalings become frequencies and one magnitude
// (ops/op.h, RopeSpec). Everything in double precision.
//
// With base b and n rotated dimensions, pair i turns by f_i = b^(-2i/n) per position, and
//   none     f_i
//   linear   f_i / factor
//   factors  f_i / rope_freqs[i] (llama3's three bands, computed by whoever converted the model);
//            combines with the others, as the first step
//   yarn     between f_i / factor and f_i by a ramp over i (Peng et al. 2023, "YaRN", section 3.2):
//            d(r) = n ln(L / (2 pi r)) / (2 ln b) is the pair that turns r times in the original
//            context L; low = max(0, floor(d(beta_fast))), high = min(n - 1, ceil(d(beta_slow)));
//            keep_i = ext_factor * (1 - clamp((i - low) / max(0.001, high - low), 0, 1));
//            f_i keep_i + (f_i / factor) (1 - keep_i);
//            cosines and sines are multiplied by 0.1 ln(factor) + 1, or by yarn_attn_factor when
//            given.

#include <optional>

#include "base/error.h"
#include "models/keys.h"
#include "ops/op.h"

namespace cera {

enum class RopeScaling : uint8_t { none, linear, yarn };

struct RopeConfig {
  uint32_t n_dims = 0;  // rotated dimensions of a head
  double base = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double attn_factor = 1;  // multiplies the magnitude, with every scaling
  // yarn only
  double original_context = 0;
  double ext_factor = 1;
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> yarn_attn_factor = {};  // replaces the magnitude of the formula
};

/// Reads the keys rope.*; errors name the key.
Result<RopeConfig> read_rope_config(KeyReader& keys, uint32_t head_dim, uint32_t context_length);

/// factors: empty, or one positive number for each pair.
RopeSpec make_rope(const RopeConfig& config, RopePairs pairs, Vector factors = {});

}  // namespace cera
