#pragma once
// A small random model: attention, convolution and feed-forward layers, weights of the given types
// in turn.

#include <memory>
#include <vector>

#include "backends/harness.h"
#include "backends/random_weights.h"
#include "ops/plan.h"

namespace cera::tests {

struct TinyPlan {
  static constexpr uint32_t kVocab = 96;
  static constexpr uint32_t kWidth = 256;

  std::unique_ptr<RandomWeights> random;
  Plan plan;
};

inline TinyPlan make_tiny_plan(const std::vector<TensorType>& types, uint32_t seed = 7) {
  TinyPlan tiny{std::make_unique<RandomWeights>(seed), {}};
  RandomWeights& random = *tiny.random;
  constexpr uint32_t d = TinyPlan::kWidth, d_ff = 512;
  constexpr HeadShape heads = {8, 2, 32};
  constexpr uint32_t kv_width = heads.n_kv_heads * heads.head_dim;
  size_t next = 0;
  const auto matrix = [&](const std::string& name, uint32_t n_rows, uint32_t n_cols) {
    const TensorType type = types[next++ % types.size()];
    return random.matrix(name, type, n_rows, n_cols, 1.5f / std::sqrt(float(n_cols)));
  };
  const auto norm = [&](uint32_t n) { return NormSpec{random.vector(n, 1, 0.2f), 1e-5f}; };

  PlanBuilder builder(TinyPlan::kVocab);
  const uint32_t rope = builder.add_rope(plain_rope(RopePairs::halves, heads.head_dim));
  const Weight table = random.matrix("token_embd.weight", types[0], TinyPlan::kVocab, d, 1);
  const BufferId x = builder.embed(table);
  for (int layer = 0; layer < 3; ++layer) {
    builder.layer(layer);
    if (layer == 1) {
      const uint32_t conv = builder.add_conv_layer(d, 3);
      const BufferId bcx = builder.linear(x, {matrix("shortconv.in", 3 * d, d)}, {.norm = norm(d)});
      const BufferId y = builder.short_conv(bcx, conv, random.vector(d * 3, 0, 0.6f));
      builder.linear_to(x, y, matrix("shortconv.out", d, d));
    } else {
      const uint32_t kv = builder.add_kv_layer(heads);
      LinearOptions options{.norm = norm(d)};
      options.biases = {random.vector(d, 0, 0.3f), {}, random.vector(kv_width, 0, 0.3f)};
      const BufferId qkv = builder.linear(
          x, {matrix("attn_q", d, d), matrix("attn_k", kv_width, d), matrix("attn_v", kv_width, d)},
          options);
      builder.rope_store(qkv, kv, heads, {norm(heads.head_dim), norm(heads.head_dim), rope});
      builder.linear_to(x, builder.attention(qkv, kv, heads, 0.18f), matrix("attn_output", d, d));
    }
    const BufferId hidden = builder.linear_glu(
        x, matrix("ffn_gate", d_ff, d), matrix("ffn_up", d_ff, d), norm(d), Activation::silu);
    builder.linear_to(x, hidden, matrix("ffn_down", d, d_ff));
  }
  builder.layer(-1);
  builder.set_logits(builder.linear(builder.take_rows(x), {table}, {.norm = norm(d)}));
  tiny.plan = must(builder.finish());
  return tiny;
}

}  // namespace cera::tests
