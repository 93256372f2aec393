#pragma once
// Random weights for plans made in tests.

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "ops/op.h"

namespace cera::tests {

/// Owns what plans point at.
class RandomWeights {
 public:
  explicit RandomWeights(uint32_t seed) : random_(seed) {}

  Weight matrix(const std::string& name, TensorType type, uint32_t n_rows, uint32_t n_cols,
                float deviation) {
    const TypeInfo& info = type_info(type);
    const size_t row_bytes = n_cols / info.block_size * info.block_bytes;
    std::vector<std::byte>& bytes = bytes_.emplace_back(n_rows * row_bytes);
    info.pack(normal(size_t(n_rows) * n_cols, deviation).data(), bytes.data(),
              size_t(n_rows) * n_cols);
    return {name, bytes.data(), type, n_rows, n_cols, row_bytes};
  }
  /// Values around `mean`.
  Vector vector(uint32_t n, float mean, float deviation) {
    std::vector<float>& values = vectors_.emplace_back(normal(n, deviation));
    for (float& x : values) x += mean;
    return values;
  }
  std::vector<int32_t> tokens(uint32_t n, uint32_t vocab) {
    std::vector<int32_t> ids(n);
    for (int32_t& id : ids) id = int32_t(random_() % vocab);
    return ids;
  }

 private:
  /// Sum of 4 uniform numbers: close enough to normal, and the same everywhere.
  std::vector<float> normal(size_t n, float deviation) {
    std::vector<float> values(n);
    for (float& x : values) {
      float sum = 0;
      for (int i = 0; i < 4; ++i) sum += float(random_()) / float(std::mt19937::max()) - 0.5f;
      x = sum * deviation * 1.7320508f;
    }
    return values;
  }

  std::mt19937 random_;
  std::deque<std::vector<std::byte>> bytes_;
  std::deque<std::vector<float>> vectors_;
};

/// frequencies base^(-2i / n_dims)
inline RopeSpec plain_rope(RopePairs pairs, uint32_t n_dims, double base = 10000) {
  RopeSpec rope{pairs, n_dims, {}, 1};
  for (uint32_t i = 0; i < n_dims / 2; ++i) {
    rope.frequencies.push_back(std::pow(base, -2.0 * i / n_dims));
  }
  return rope;
}

}  // namespace cera::tests
