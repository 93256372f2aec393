#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/backend.h"
#include "ops/op.h"

namespace cera::cpu {

struct RopeStoreKernels {
  /// ops::rotate_head
  void (*rotate)(float* head, const RopeSpec& rope, const float* cosines, const float* sines);
  /// Writes n elements at `to`, `to + stride`, ... in the cache's type; stride in elements. By
  /// KvType.
  void (*store[2])(const float* from, uint32_t n, std::byte* to, size_t stride);
  const char* name;
};

namespace avx2 {
/// nullptr where the build has no x86 code.
const RopeStoreKernels* rope_store_kernels();
}  // namespace avx2

}  // namespace cera::cpu
