#pragma once
// Definition of `attention` (ops/op.h), to the last rounding.
//
// For one row and one head, with q [head_dim] f32 and the visible cells [0, last_visible] of its
// sequence, k and v as stored (f16 widened exactly, or f32):
//   score[i] = (fma chain over d = 0 .. head_dim - 1, from 0, of q[d] * k_i[d]) * scale
// Cells are taken in spans of kSpanCells (256) from cell 0. In one span:
//   m = max of the visible scores; e[i] = math::exp(score[i] - m), 0 for cells that are not visible
//   l = sum of e: lane (i mod 8) over the span's cells in order, plain additions, joined by
//   join_lanes o[d] = fma chain over i in order, from 0, of e[i] * v_i[d]
// Spans are merged in order into (M, L, O), starting with the first span's (m, l, o):
//   M' = max(M, m); a = exp(M - M'); b = exp(m - M'); L = L * a + l * b; O[d] = O[d] * a + o[d] * b
//   (two products, one addition, no fma)
// out[d] = O[d] / L.
// A sequence of one span is not merged at all. Query heads h share kv head h / (n_heads /
// n_kv_heads).

#include <cstdint>
#include <functional>

#include "ops/op.h"
#include "ops/plan.h"

namespace cera::ops {

/// One row and head. k(cell, d) and v(cell, d) give the stored values widened to f32.
void define_attention(const float* q, uint32_t head_dim, float scale, uint32_t last_visible,
                      const std::function<float(uint32_t cell, uint32_t d)>& k,
                      const std::function<float(uint32_t cell, uint32_t d)>& v, float* out);

}  // namespace cera::ops
