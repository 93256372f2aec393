#pragma once
// What the avx512 files of linear share. Activations are packed as in linear_avx2.h.

#include "backends/cpu/x86/linear_avx2.h"

namespace cera::cpu::avx512 {

inline constexpr uint32_t group_rows = 8, panel_rows = 32;

using avx2::DotRows;
DotRows quantised_dot_rows(TensorType type);
/// Without dot_rows.
WeightKernels quantised_panels(TensorType type);

}  // namespace cera::cpu::avx512
