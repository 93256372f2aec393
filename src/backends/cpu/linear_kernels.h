#pragma once
// What a tier provides for linear ops. linear.cpp owns the order of work, threads and memory; a
// tier owns the layout of quantised activations and unpacked weights, which are opaque bytes to
// everybody else.
//
// Few activation rows: each is packed alone and every weight row is read where it lies (dot_rows).
// Many: rows are packed in groups of group_rows, panel_rows weight rows are unpacked once to a
// panel, and multiply() gives the dot products of the two.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ops/linear.h"

namespace cera::cpu {

inline constexpr uint32_t kFormats = 3;  // of ops::ActivationFormat
inline constexpr uint32_t kMaxGroupRows = 8;

/// How activations of one format are packed. Sizes are multiples of 64; all packed memory is
/// 64-byte aligned.
struct ActivationKernels {
  size_t (*row_bytes)(uint32_t n_cols);
  void (*pack_row)(const float* x, uint32_t n_cols, std::byte* to);
  size_t (*group_bytes)(uint32_t n_cols);
  /// x[0 .. group_rows); nullptr: a missing row, packed as zeros.
  void (*pack_group)(const float* const* x, uint32_t n_cols, std::byte* to);
};

struct WeightKernels {
  /// out[i * out_stride + r] = weight row (first_row + r) . activation row i, the latter packed at
  /// x + i * x_stride.
  void (*dot_rows)(const Weight& weight, uint32_t first_row, uint32_t n_rows, const std::byte* x,
                   size_t x_stride, uint32_t n_x, float* out, size_t out_stride);
  size_t (*panel_bytes)(uint32_t n_cols);
  /// Rows past the weight's last one repeat it.
  void (*unpack_panel)(const Weight& weight, uint32_t first_row, std::byte* panel);
  /// out[i * out_stride + r] = panel row r . group row i, for all panel_rows and group_rows.
  void (*multiply)(const std::byte* panel, const std::byte* group, uint32_t n_cols, float* out,
                   size_t out_stride);
};

/// Step 4 of ops/linear.h.
struct Epilogue {
  Activation activation = Activation::none;
  float scale = 1;
  bool accumulate = false;
};

struct LinearKernels {
  std::string_view name;
  uint32_t group_from_rows;  // fewer rows than this are packed alone
  uint32_t group_rows;       // activation rows packed together, at most kMaxGroupRows
  uint32_t panel_rows;       // weight rows unpacked together
  /// bias may be nullptr
  void (*finish)(const Epilogue& epilogue, const float* dots, const float* bias, float* out,
                 uint32_t n);
  /// out = act(gate) * up
  void (*finish_glu)(Activation activation, const float* gate, const float* up, float* out,
                     uint32_t n);
  const ActivationKernels& (*activations)(ops::ActivationFormat format);
  /// nullptr for a type that the tier does not run.
  const WeightKernels* (*weights)(TensorType type);
};

const LinearKernels& scalar_linear_kernels();
namespace avx2 {
/// nullptr where the build has no x86 code.
const LinearKernels* linear_kernels();
}  // namespace avx2
namespace avx512 {
/// nullptr where the build has no x86 code.
const LinearKernels* linear_kernels();
}  // namespace avx512

}  // namespace cera::cpu
