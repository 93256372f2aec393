#include <cmath>
#include <limits>

#include "backends/cpu/attention_kernels.h"
#include "base/assert.h"
#include "base/float16.h"
#include "ops/math.h"

namespace cera::cpu {
namespace {

float widen(float x) {
  return x;
}
float widen(uint16_t x) {
  return f16_to_f32(x);
}

template <class T>
void scores(const float* q, uint32_t n_queries, uint32_t head_dim, float scale, const std::byte* k,
            const std::byte*, uint32_t n_cells, float* s) {
  const T* keys = reinterpret_cast<const T*>(k);
  for (uint32_t r = 0; r < n_queries; ++r, q += head_dim, s += kSpanCells) {
    for (uint32_t i = 0; i < n_cells; ++i) {
      float sum = 0;
      for (uint32_t d = 0; d < head_dim; ++d) {
        sum = std::fma(q[d], widen(keys[d * kPageCells + i]), sum);
      }
      s[i] = sum * scale;
    }
  }
}

SoftmaxSum softmax(float* s, uint32_t n) {
  float m = -std::numeric_limits<float>::infinity();
  for (uint32_t i = 0; i < n; ++i) m = s[i] > m ? s[i] : m;
  float lanes[8] = {};
  for (uint32_t i = 0; i < n; ++i) {
    s[i] = math::exp(s[i] - m);
    lanes[i % 8] += s[i];
  }
  return {m, math::join_lanes(lanes)};
}

template <class T>
void weigh(const float* e, uint32_t n_queries, const std::byte* v, const std::byte*,
           uint32_t n_cells, uint32_t head_dim, float* o) {
  for (uint32_t r = 0; r < n_queries; ++r, e += kSpanCells, o += head_dim) {
    const T* values = reinterpret_cast<const T*>(v);
    for (uint32_t i = 0; i < n_cells; ++i, values += head_dim) {
      for (uint32_t d = 0; d < head_dim; ++d) o[d] = std::fma(e[i], widen(values[d]), o[d]);
    }
  }
}

void merge(SoftmaxSum* total, SoftmaxSum span, float* total_o, const float* o, uint32_t head_dim) {
  const float m = span.m > total->m ? span.m : total->m;
  const float a = math::exp(total->m - m), b = math::exp(span.m - m);
  total->m = m;
  total->l = total->l * a + span.l * b;
  for (uint32_t d = 0; d < head_dim; ++d) total_o[d] = total_o[d] * a + o[d] * b;
}

template <class T>
constexpr AttentionKernels kScalar = {scores<T>, softmax, weigh<T>, merge, "scalar"};

}  // namespace

const AttentionKernels& attention_kernels(CpuTier tier, KvType type, uint32_t head_dim) {
  if (tier >= CpuTier::avx2 && head_dim % 8 == 0) {
    const AttentionKernels* kernels = avx2::attention_kernels(type);
    CERA_ASSERT(kernels != nullptr);
    return *kernels;
  }
  return type == KvType::f16 ? kScalar<uint16_t> : kScalar<float>;
}

}  // namespace cera::cpu
