#include "ops/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "base/float16.h"
#include "ops/math.h"

namespace cera::ops {
namespace {

constexpr uint32_t max_block = 256, max_block_bytes = 210;
constexpr uint16_t half_one = 0x3c00, half_minus_one = 0xbc00;

/// Where a block keeps its f16 scale and, if it has one, its f16 minimum.
struct Layout {
  uint32_t d_at;
  int32_t m_at;
};

Layout layout_of(TensorType type) {
  switch (type) {
    case TensorType::q4_1:
    case TensorType::q5_1:
    case TensorType::q4_k:
    case TensorType::q5_k:
      return {0, 2};
    case TensorType::q6_k:
      return {208, -1};
    default:
      return {0, -1};
  }
}

uint16_t load_half(const std::byte* from) {
  uint16_t half;
  std::memcpy(&half, from, sizeof half);
  return half;
}

/// The integers of a block: it is unpacked with its scale and minimum replaced by small whole
/// numbers, where every product and sum of the unpacking is exact.
void unpack_integers(const TypeInfo& info, Layout layout, const std::byte* block, uint16_t d,
                     uint16_t m, int32_t* to) {
  std::byte copy[max_block_bytes];
  float values[max_block];
  std::memcpy(copy, block, info.block_bytes);
  std::memcpy(copy + layout.d_at, &d, sizeof d);
  if (layout.m_at >= 0) std::memcpy(copy + layout.m_at, &m, sizeof m);
  info.unpack(copy, values, info.block_size);
  for (uint32_t i = 0; i < info.block_size; ++i) to[i] = int32_t(values[i]);
}

struct Block {
  float d, m;
  int32_t codes[max_block];  // (q - offset), times the sub-block scale in K-quants
  int32_t mins[max_block];   // K-quants with a minimum: that of the element's sub-block
};

void load_block(const TypeInfo& info, Layout layout, const std::byte* from, Block& block) {
  block.d = f16_to_f32(load_half(from + layout.d_at));
  block.m = layout.m_at >= 0 ? f16_to_f32(load_half(from + layout.m_at)) : 0.0f;
  unpack_integers(info, layout, from, half_one, 0, block.codes);
  if (info.block_size == max_block && layout.m_at >= 0)
    unpack_integers(info, layout, from, 0, half_minus_one, block.mins);
}

int32_t dot_integers(const int32_t* a, const int8_t* b, uint32_t n) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_block(const Block& block, bool has_min, uint32_t b, const QuantisedView& x, float s[4]) {
  const float d = block.d * x.d[b];
  s[b % 4] = std::fma(d, float(dot_integers(block.codes, x.q + b * 32, 32)), s[b % 4]);
  if (!has_min) return;
  const float sum = x.d[b] * float(x.sums[2 * b] + x.sums[2 * b + 1]);
  s[b % 4] = std::fma(block.m, sum, s[b % 4]);
}

void add_super_block(const Block& block, bool has_min, uint32_t b, const QuantisedView& x,
                     float& s) {
  const int8_t* q = x.q + b * max_block;
  s = std::fma(block.d * x.d[b], float(dot_integers(block.codes, q, max_block)), s);
  if (has_min) s = std::fma(-(block.m * x.d[b]), float(dot_integers(block.mins, q, max_block)), s);
}

}  // namespace

ActivationFormat activation_format(TensorType weight) {
  switch (type_info(weight).block_size) {
    case 32:
      return ActivationFormat::q8_block32;
    case 256:
      return ActivationFormat::q8_block256;
    default:
      return ActivationFormat::f32;
  }
}

void quantise_activations(const float* x, uint32_t n, uint32_t block, int8_t* q, float* d,
                          int16_t* sums) {
  CERA_DASSERT(n % block == 0 && block % 16 == 0);
  for (uint32_t b = 0; b < n / block; ++b, x += block, q += block) {
    float amax = 0;
    bool finite = true;
    for (uint32_t i = 0; i < block; ++i) {
      finite = finite && std::isfinite(x[i]);
      amax = std::max(amax, std::fabs(x[i]));
    }
    const bool empty = !finite || amax < 1e-30f;
    const float inverse = empty ? 0.0f : 127.0f / amax;
    d[b] = !finite ? std::numeric_limits<float>::quiet_NaN() : empty ? 0.0f : amax / 127.0f;
    for (uint32_t i = 0; i < block; ++i)
      q[i] = empty ? int8_t{0} : int8_t(std::nearbyintf(x[i] * inverse));
    for (uint32_t i = 0; i < block; i += 16) {
      int sum = 0;
      for (uint32_t j = 0; j < 16; ++j) sum += q[i + j];
      *sums++ = int16_t(sum);
    }
  }
}

QuantisedRow quantise_activations(const float* x, uint32_t n, uint32_t block) {
  QuantisedRow row{block, std::vector<int8_t>(n), std::vector<float>(n / block),
                   std::vector<int16_t>(n / 16)};
  quantise_activations(x, n, block, row.q.data(), row.d.data(), row.sums.data());
  return row;
}

void dot_quantised(const Weight& weight, uint32_t row, const QuantisedView* x, uint32_t n_x,
                   float* out) {
  const TypeInfo& info = type_info(weight.type);
  const Layout layout = layout_of(weight.type);
  const bool has_min = layout.m_at >= 0;
  const std::byte* from = weight.data + row * weight.row_bytes;
  constexpr uint32_t batch = 8;  // rows of x that share one unpacking
  for (uint32_t first = 0; first < n_x; first += batch) {
    const uint32_t n = std::min(batch, n_x - first);
    float s[batch][4] = {};
    Block block;
    for (uint32_t b = 0; b < weight.n_cols / info.block_size; ++b) {
      load_block(info, layout, from + b * size_t{info.block_bytes}, block);
      for (uint32_t i = 0; i < n; ++i) {
        if (info.block_size == 32)
          add_block(block, has_min, b, x[first + i], s[i]);
        else
          add_super_block(block, has_min, b, x[first + i], s[i][0]);
      }
    }
    for (uint32_t i = 0; i < n; ++i)
      out[first + i] = info.block_size == 32 ? (s[i][0] + s[i][1]) + (s[i][2] + s[i][3]) : s[i][0];
  }
}

float dot_row(const Weight& weight, uint32_t row, const float* x) {
  const TypeInfo& info = type_info(weight.type);
  if (info.block_size == 1) {
    std::vector<float> widened(weight.n_cols);
    info.unpack(weight.data + row * weight.row_bytes, widened.data(), weight.n_cols);
    return math::dot(widened.data(), x, weight.n_cols);
  }
  const QuantisedRow quantised = quantise_activations(x, weight.n_cols, info.block_size);
  const QuantisedView view{quantised.q.data(), quantised.d.data(), quantised.sums.data()};
  float out;
  dot_quantised(weight, row, &view, 1, &out);
  return out;
}

float finish(float dot, const float* bias, Activation activation, float scale) {
  float y = dot;
  if (bias != nullptr) y = y + *bias;
  if (activation == Activation::silu) y = math::silu(y);
  if (scale != 1.0f) y = y * scale;
  return y;
}

namespace {

std::vector<float> normed_row(const NormSpec& norm, const float* in, uint32_t n) {
  std::vector<float> row(in, in + n);
  if (norm) math::rms_norm(in, norm.gain.data(), norm.eps, row.data(), n);
  return row;
}

}  // namespace

void define(const LinearOp& op, const float* in, float* out, uint32_t n_rows) {
  const uint32_t width = op.weights.front().n_cols;
  for (uint32_t t = 0; t < n_rows; ++t, in += width) {
    const std::vector<float> x = normed_row(op.norm, in, width);
    for (size_t m = 0; m < op.weights.size(); ++m) {
      const Vector bias = op.biases.empty() ? Vector{} : op.biases[m];
      for (uint32_t r = 0; r < op.weights[m].n_rows; ++r, ++out) {
        const float dot = dot_row(op.weights[m], r, x.data());
        const float y = finish(dot, bias.empty() ? nullptr : &bias[r], op.activation, op.scale);
        *out = op.accumulate ? *out + y : y;
      }
    }
  }
}

void define(const LinearGluOp& op, const float* in, float* out, uint32_t n_rows) {
  const uint32_t width = op.gate.n_cols;
  for (uint32_t t = 0; t < n_rows; ++t, in += width) {
    const std::vector<float> x = normed_row(op.norm, in, width);
    for (uint32_t r = 0; r < op.gate.n_rows; ++r, ++out) {
      const float gate = dot_row(op.gate, r, x.data());
      *out = finish(gate, nullptr, op.activation, 1.0f) * dot_row(op.up, r, x.data());
    }
  }
}

}  // namespace cera::ops
