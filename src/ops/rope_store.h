#pragma once
// Definition of `rope_store` (ops/op.h).
//
// q_norm / k_norm: math::rms_norm over head_dim for each head when the gain has head_dim elements,
// over all of q / k when it has n_heads * head_dim / n_kv_heads * head_dim of them. Rotation of
// pair (x0, x1) by angle = double(position) * frequency: c = float(cos(angle)) * magnitude, s =
// float(sin(angle)) * magnitude;  y0 = x0 * c - x1 * s;  y1 = x0 * s + x1 * c  (products rounded,
// no fma). Stored as f16: round to nearest even; a magnitude beyond 65504 is stored as 65504 with
// its sign.

#include <cstdint>

#include "ops/op.h"

namespace cera::ops {

/// cos and sin [n_dims / 2] of one position, times magnitude.
void rope_angles(const RopeSpec& rope, uint32_t position, float* cosines, float* sines);

/// Rotates one head of head_dim floats in place.
void rotate_head(float* head, const RopeSpec& rope, const float* cosines, const float* sines);

/// The f16 bits that the cache holds for x.
uint16_t store_f16(float x);

/// Norms and rotates q and k of one row in place; v is untouched.
void define_rope(const RopeStoreOp& op, const RopeSpec& rope, uint32_t position, float* qkv_row);

}  // namespace cera::ops
