#include "ops/rope_store.h"

#include <algorithm>
#include <cmath>

#include "base/float16.h"
#include "ops/math.h"

namespace cera::ops {

void rope_angles(const RopeSpec& rope, uint32_t position, float* cosines, float* sines) {
  for (uint32_t i = 0; i < rope.n_dims / 2; ++i) {
    const double angle = double(position) * rope.frequencies[i];
    cosines[i] = float(std::cos(angle)) * rope.magnitude;
    sines[i] = float(std::sin(angle)) * rope.magnitude;
  }
}

void rotate_head(float* head, const RopeSpec& rope, const float* cosines, const float* sines) {
  if (rope.pairs == RopePairs::none) return;
  const bool adjacent = rope.pairs == RopePairs::adjacent;
  const uint32_t n = rope.n_dims / 2;
  for (uint32_t i = 0; i < n; ++i) {
    float& x0 = adjacent ? head[2 * i] : head[i];
    float& x1 = adjacent ? head[2 * i + 1] : head[i + n];
    const float y0 = x0 * cosines[i] - x1 * sines[i];
    const float y1 = x0 * sines[i] + x1 * cosines[i];
    x0 = y0;
    x1 = y1;
  }
}

uint16_t store_f16(float x) {
  if (x > 65504.0f) x = 65504.0f;
  if (x < -65504.0f) x = -65504.0f;
  return f32_to_f16(x);
}

namespace {

void norm_heads(const NormSpec& norm, uint32_t n_heads, uint32_t head_dim, float* heads) {
  if (!norm) return;
  const bool per_head = norm.gain.size() == head_dim;
  const uint32_t width = per_head ? head_dim : n_heads * head_dim;
  for (uint32_t i = 0; i < (per_head ? n_heads : 1); ++i) {
    float* x = heads + size_t(i) * width;
    math::rms_norm(x, norm.gain.data(), norm.eps, x, width);
  }
}

}  // namespace

void define_rope(const RopeStoreOp& op, const RopeSpec& rope, uint32_t position, float* qkv_row) {
  float* k = qkv_row + size_t(op.n_heads) * op.head_dim;
  norm_heads(op.q_norm, op.n_heads, op.head_dim, qkv_row);
  norm_heads(op.k_norm, op.n_kv_heads, op.head_dim, k);
  std::vector<float> cosines(rope.n_dims / 2), sines(rope.n_dims / 2);
  rope_angles(rope, position, cosines.data(), sines.data());
  for (uint32_t h = 0; h < op.n_heads + op.n_kv_heads; ++h) {
    rotate_head(qkv_row + size_t(h) * op.head_dim, rope, cosines.data(), sines.data());
  }
}

}  // namespace cera::ops
