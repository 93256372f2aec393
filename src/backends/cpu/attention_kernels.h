#pragma once
// The inner loops of attention (ops/attention.h). One page of one kv head is their unit of memory:
// K as [head_dim][kPageCells], V as [kPageCells][head_dim], in the cache's type. Rows of scores are
// kSpanCells long.

#include <cstddef>
#include <cstdint>

#include "backends/backend.h"
#include "base/cpu_info.h"

namespace cera::cpu {

/// The most query vectors that one call takes.
inline constexpr uint32_t kQueryTile = 6;

/// Running softmax: the maximum and the sum of exp(score - maximum).
struct SoftmaxSum {
  float m, l;
};

/// `next` is the page that will be read after this one (or the same one): kernels fetch it ahead.
struct AttentionKernels {
  /// s[r][i] = (q[r] . k[i]) * scale for the first n_cells cells; may write on to a multiple of 8
  /// cells. q [n_queries, head_dim].
  void (*scores)(const float* q, uint32_t n_queries, uint32_t head_dim, float scale,
                 const std::byte* k, const std::byte* next, uint32_t n_cells, float* s);
  /// One row of n scores becomes exp(score - m); may write on to a multiple of 8 cells.
  SoftmaxSum (*softmax)(float* s, uint32_t n);
  /// o[r][d] continues its fma chain with e[r][i] * v[i][d] over n_cells cells. o [n_queries,
  /// head_dim].
  void (*weigh)(const float* e, uint32_t n_queries, const std::byte* v, const std::byte* next,
                uint32_t n_cells, uint32_t head_dim, float* o);
  /// Merges a later span into the total.
  void (*merge)(SoftmaxSum* total, SoftmaxSum span, float* total_o, const float* o,
                uint32_t head_dim);
  const char* name;
};

/// The vector kernels take head dimensions that are multiples of 8; others get the scalar ones.
const AttentionKernels& attention_kernels(CpuTier tier, KvType type, uint32_t head_dim);

namespace avx2 {
/// nullptr where the build has no x86 code.
const AttentionKernels* attention_kernels(KvType type);
}  // namespace avx2

}  // namespace cera::cpu
