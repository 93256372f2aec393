#pragma once
// Definition of `short_conv` (ops/op.h): with u[t] = B[t] * X[t] (one rounded product),
//   y = 0; for j = 0 .. taps - 1: y = fma(kernel[c][j], u[t - (taps - 1) + j][c], y);  out = C * y
// Columns before the first row come from the state; before cell 0 they are 0.

#include <cstdint>

#include "ops/op.h"

namespace cera::ops {

/// rows [n_rows, 3D] -> out [n_rows, D]; history [taps - 1][D], oldest first, is read and then
/// updated to the last taps - 1 columns.
void define_short_conv(const float* kernel, uint32_t taps, uint32_t width, const float* bcx,
                       float* out, uint32_t n_rows, float* history);

}  // namespace cera::ops
