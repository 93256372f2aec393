#pragma once
// Layouts shared by the AVX2 files of linear, and what each file provides.

#include <cstddef>
#include <cstdint>

#include "backends/cpu/linear_kernels.h"

namespace cera::cpu::avx2 {

// ---- activations, one row ----

/// Four blocks of 32. Codes lie as dot_rows wants them: the first 16 codes of blocks 0 2 1 3, so
/// that a vector holds the same half of two blocks (or of four), then the other halves.
struct RowQuad {
  int8_t q[2][2][2][16];  // [half][block & 1][block >> 1]
  float d[4];
  int32_t sums[4];  // of q
  float d_sums[4];  // d * float(sum)
  float unused[4];
};
static_assert(sizeof(RowQuad) == 192);

struct RowSuper {
  int8_t q[256];
  int16_t sums16[16];  // of q over every 16 elements
  int16_t sums32[8];   // over every 32
  float d;
  float unused[3];
};
static_assert(sizeof(RowSuper) == 320);

// ---- activations, a group of n rows: the same 4 columns of all rows side by side ----

template <uint32_t n>
struct GroupBlock {
  int8_t q[8][n][4];
  float d[n];
  int16_t lane_sums[n][2];  // of q over the even and the odd column pairs
  float d_sums[n];          // d * float(sum of q)
};
static_assert(sizeof(GroupBlock<4>) == 176);

template <uint32_t n>
struct GroupSuper {
  int8_t q[64][n][4];
  float d[n];
  int16_t lane_sums[16][n][2];  // as above, over every 16 columns
  int16_t sums[4][n][2];        // sums of q over 32 columns, in pairs
};
static_assert(sizeof(GroupSuper<4>) == 1360);

inline constexpr uint32_t quads_of(uint32_t n_cols) {
  return (n_cols + 127) / 128;
}
/// Columns of float rows and panels are padded to whole vectors.
inline constexpr uint32_t padded(uint32_t n_cols) {
  return (n_cols + 7) / 8 * 8;
}

/// group_rows is 4 or 8.
const ActivationKernels& activation_kernels(ops::ActivationFormat format, uint32_t group_rows);

using DotRows = decltype(WeightKernels::dot_rows);
DotRows quantised_dot_rows(TensorType type);
/// Without dot_rows.
WeightKernels quantised_panels(TensorType type);
/// For groups of 4 and panels of 16, or groups of 8 and panels of 32.
WeightKernels float_kernels(TensorType type, uint32_t group_rows);

}  // namespace cera::cpu::avx2
