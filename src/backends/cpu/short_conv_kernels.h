#pragma once

#include <cstdint>

namespace cera::cpu {

/// One row of the convolution, from the first channel of a range on.
struct ConvRow {
  const float* const* b;  // [taps] columns, the oldest first: u = b[j] * x[j] ...
  const float* const* x;  // ... or b[j] itself where x[j] is nullptr
  const float* kernel;    // tap j of channel c at [j * width + c]
  const float* gate;
  float* out;
  uint32_t width;
  uint32_t taps;
};

struct ShortConvKernels {
  void (*row)(const ConvRow& row, uint32_t n_channels);
  const char* name;
};

namespace avx2 {
/// nullptr where the build has no x86 code.
const ShortConvKernels* short_conv_kernels();
}  // namespace avx2

}  // namespace cera::cpu
