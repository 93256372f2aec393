#pragma once
// Layouts shared by the AVX2 files of linear, and what each file provides.

#include <cstddef>
#include <cstdint>

#include "backends/cpu/linear_kernels.h"

namespace cera::cpu::avx2 {

// ---- activations, one row ----

/// Four blocks of 32. Codes lie as dot_rows wants them: the 16-byte halves of blocks 0 and 2 side by side, so
/// that one vector holds the same half of two blocks; then those of 1 and 3.
struct RowQuad {
  int8_t q[2][2][2][16];  // [block & 1][half][block >> 1]
  float d[4];
  int32_t sums[4];    // of q
  float d_sums[4];    // d * float(sum)
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

// ---- activations, a group of four rows: the same 4 columns of all rows side by side ----

struct GroupBlock {
  int8_t q[8][kGroupRows][4];
  float d[kGroupRows];
  int16_t lane_sums[kGroupRows][2];  // of q over the even and the odd column pairs
  float d_sums[kGroupRows];          // d * float(sum of q)
};
static_assert(sizeof(GroupBlock) == 176);

struct GroupSuper {
  int8_t q[64][kGroupRows][4];
  float d[kGroupRows];
  int16_t lane_sums[16][kGroupRows][2];  // as above, over every 16 columns
  int16_t sums[4][kGroupRows][2];        // sums of q over 32 columns, in pairs
};
static_assert(sizeof(GroupSuper) == 1360);

inline constexpr uint32_t quads_of(uint32_t n_cols) { return (n_cols + 127) / 128; }
/// Columns of float rows and panels are padded to whole vectors.
inline constexpr uint32_t padded(uint32_t n_cols) { return (n_cols + 7) / 8 * 8; }

const ActivationKernels& activation_kernels(ops::ActivationFormat format);

using DotRows = decltype(WeightKernels::dot_rows);
DotRows quantised_dot_rows(TensorType type);
/// Without dot_rows.
WeightKernels quantised_panels(TensorType type);
WeightKernels float_kernels(TensorType type);

}  // namespace cera::cpu::avx2
