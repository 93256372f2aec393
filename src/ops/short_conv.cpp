#include "ops/short_conv.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace cera::ops {

void define_short_conv(const float* kernel, uint32_t taps, uint32_t width, const float* bcx,
                       float* out, uint32_t n_rows, float* history) {
  // One channel's columns: the history, then u of every row.
  std::vector<float> u(taps - 1 + n_rows);
  for (uint32_t c = 0; c < width; ++c) {
    for (uint32_t j = 0; j < taps - 1; ++j) u[j] = history[size_t(j) * width + c];
    for (uint32_t t = 0; t < n_rows; ++t) {
      const float* row = bcx + size_t(t) * 3 * width;
      u[taps - 1 + t] = row[c] * row[2 * width + c];
      float y = 0;
      for (uint32_t j = 0; j < taps; ++j) y = std::fma(kernel[c * taps + j], u[t + j], y);
      out[size_t(t) * width + c] = row[width + c] * y;
    }
    for (uint32_t j = 0; j < taps - 1; ++j) history[size_t(j) * width + c] = u[n_rows + j];
  }
}

}  // namespace cera::ops
