#pragma once
// Definition of `linear` and `linear_glu` (ops/op.h), to the last rounding. Kernels of every tier,
// decode or prefill, give these bits.
//
// 1. Norm: math::rms_norm per row, when given.
// 2. The row is quantised once per weight family (never for float weights), see
// quantise_activations:
//    block 32 for Q4_0 Q4_1 Q5_0 Q5_1 Q8_0, block 256 for K-quants.
// 3. Dot product of weight row w with activation row a, blocks b in order, all integers exact:
//    32-wide types:  isum = sum (q_w - offset) * q_a   (offset 8 for Q4_0, 16 for Q5_0, else 0)
//                    s[b % 4] = fma(d_w * d_a, float(isum), s[b % 4])
//                    Q4_1, Q5_1 then: s[b % 4] = fma(m_w, s_a, s[b % 4]),  s_a = d_a * float(sum
//                    q_a) result (s[0] + s[1]) + (s[2] + s[3])
//    K-quants:       isum = sum over sub-blocks of scale * sum (q_w - offset) * q_a   (offset 32
//    for Q6_K)
//                    s = fma(d_w * d_a, float(isum), s)
//                    Q4_K, Q5_K then: msum = sum over sub-blocks of min * sum q_a
//                    s = fma(-(dmin_w * d_a), float(msum), s)
//    F32 F16 BF16:   math::dot over the widened weights: lane k mod 8 by fma, joined by join_lanes
// 4. y = dot; y = y + bias; y = act(y); y = y * scale, each only where given (scale != 1);
//    out = y, or out = out + y. For linear_glu: out = act(dot_gate) * dot_up.

#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace cera::ops {

/// How a weight type wants its activations.
enum class ActivationFormat : uint8_t { f32, q8_block32, q8_block256 };

ActivationFormat activation_format(TensorType weight);

/// One quantised row. Block b covers elements [b * block, (b + 1) * block).
struct QuantisedRow {
  uint32_t block;             // 32 or 256
  std::vector<int8_t> q;      // in [-127, 127]
  std::vector<float> d;       // one per block
  std::vector<int16_t> sums;  // of q over every 16 elements
};

/// Symmetric: amax = max |x| of the block; d = amax / 127; q = round_half_even(x * (127 / amax)).
/// amax < 1e-30: d = 0 and q = 0. A block with a non-finite element: q = 0 and d = NaN, so that the
/// fault reaches the logits instead of vanishing.
QuantisedRow quantise_activations(const float* x, uint32_t n, uint32_t block);

/// The same into memory of the caller: q [n], d [n / block], sums [n / 16].
void quantise_activations(const float* x, uint32_t n, uint32_t block, int8_t* q, float* d,
                          int16_t* sums);

/// A quantised row that lies elsewhere.
struct QuantisedView {
  const int8_t* q;
  const float* d;
  const int16_t* sums;
};

/// Step 3 for one row of a quantised weight and n_x activation rows: out[i].
void dot_quantised(const Weight& weight, uint32_t row, const QuantisedView* x, uint32_t n_x,
                   float* out);

/// Step 4 up to the scale; bias may be nullptr.
float finish(float dot, const float* bias, Activation activation, float scale);

/// Step 3 for one weight row and one activation row (normed, f32).
float dot_row(const Weight& weight, uint32_t row, const float* x);

/// The whole op on n_rows rows: in [n_rows, D], out [n_rows, sum N_i].
void define(const LinearOp& op, const float* in, float* out, uint32_t n_rows);
void define(const LinearGluOp& op, const float* in, float* out, uint32_t n_rows);

}  // namespace cera::ops
