#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/math.h"

namespace cera::ops {
namespace {

struct SpanResult {
  float m, l;
  std::vector<float> o;
};

SpanResult define_span(const float* q, uint32_t head_dim, float scale, uint32_t first, uint32_t n,
                       const std::function<float(uint32_t, uint32_t)>& k,
                       const std::function<float(uint32_t, uint32_t)>& v) {
  std::vector<float> e(n);
  // A NaN score never becomes the maximum; it reaches the output through exp.
  float m = -std::numeric_limits<float>::infinity();
  for (uint32_t i = 0; i < n; ++i) {
    float score = 0;
    for (uint32_t d = 0; d < head_dim; ++d) score = std::fma(q[d], k(first + i, d), score);
    e[i] = score * scale;
    m = e[i] > m ? e[i] : m;
  }
  float lanes[8] = {};
  for (uint32_t i = 0; i < n; ++i) {
    e[i] = math::exp(e[i] - m);
    lanes[i % 8] += e[i];
  }
  std::vector<float> o(head_dim);
  for (uint32_t d = 0; d < head_dim; ++d) {
    for (uint32_t i = 0; i < n; ++i) o[d] = std::fma(e[i], v(first + i, d), o[d]);
  }
  return {m, math::join_lanes(lanes), std::move(o)};
}

}  // namespace

void define_attention(const float* q, uint32_t head_dim, float scale, uint32_t last_visible,
                      const std::function<float(uint32_t cell, uint32_t d)>& k,
                      const std::function<float(uint32_t cell, uint32_t d)>& v, float* out) {
  SpanResult sum;
  for (uint32_t first = 0; first <= last_visible; first += kSpanCells) {
    const uint32_t n = std::min(kSpanCells, last_visible - first + 1);
    SpanResult span = define_span(q, head_dim, scale, first, n, k, v);
    if (first == 0) {
      sum = std::move(span);
      continue;
    }
    const float m = span.m > sum.m ? span.m : sum.m;
    const float a = math::exp(sum.m - m), b = math::exp(span.m - m);
    sum.m = m;
    sum.l = sum.l * a + span.l * b;
    for (uint32_t d = 0; d < head_dim; ++d) sum.o[d] = sum.o[d] * a + span.o[d] * b;
  }
  for (uint32_t d = 0; d < head_dim; ++d) out[d] = sum.o[d] / sum.l;
}

}  // namespace cera::ops
