#pragma once
// Views of weights. The bytes belong to the model (its mapped file, or vectors it unpacked); ops
// and plans only point at them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "quant/types.h"

namespace cera {

/// A packed matrix W [n_rows, n_cols]; y = W x. Row r starts at data + r * row_bytes, without
/// alignment. May be a row range of a tensor.
struct Weight {
  std::string name;  // of the tensor, for messages
  const std::byte* data = nullptr;
  TensorType type = TensorType::f32;
  uint32_t n_rows = 0;  // outputs
  uint32_t n_cols = 0;  // inputs; a multiple of the type's block size
  size_t row_bytes = 0;
};

/// Small per-channel parameters (norm gains, biases, convolution taps), always unpacked to f32.
/// Empty = absent.
using Vector = std::span<const float>;

}  // namespace cera
