// The scalar tier: the definitions of ops/linear.h, one activation row at a time.

#include <algorithm>
#include <cstring>

#include "backends/cpu/linear_kernels.h"
#include "base/checked.h"
#include "ops/math.h"

namespace cera::cpu {
namespace {

template <uint32_t block>
struct Quantised {
  static size_t d_at(uint32_t n_cols) { return round_up<size_t>(n_cols, 64); }
  static size_t sums_at(uint32_t n_cols) { return d_at(n_cols) + n_cols / block * sizeof(float); }
  static size_t row_bytes(uint32_t n_cols) {
    return round_up<size_t>(sums_at(n_cols) + n_cols / 16 * sizeof(int16_t), 64);
  }
  static ops::QuantisedView view(const std::byte* row, uint32_t n_cols) {
    return {reinterpret_cast<const int8_t*>(row),
            reinterpret_cast<const float*>(row + d_at(n_cols)),
            reinterpret_cast<const int16_t*>(row + sums_at(n_cols))};
  }
  static void pack_row(const float* x, uint32_t n_cols, std::byte* to) {
    ops::quantise_activations(x, n_cols, block, reinterpret_cast<int8_t*>(to),
                              reinterpret_cast<float*>(to + d_at(n_cols)),
                              reinterpret_cast<int16_t*>(to + sums_at(n_cols)));
  }
  static void dot_rows(const Weight& weight, uint32_t first_row, uint32_t n_rows,
                       const std::byte* x, size_t x_stride, uint32_t n_x, float* out,
                       size_t out_stride) {
    constexpr uint32_t batch = 8;
    for (uint32_t first = 0; first < n_x; first += batch) {
      const uint32_t n = std::min(batch, n_x - first);
      ops::QuantisedView views[batch];
      for (uint32_t i = 0; i < n; ++i) views[i] = view(x + (first + i) * x_stride, weight.n_cols);
      for (uint32_t r = 0; r < n_rows; ++r) {
        float dots[batch];
        ops::dot_quantised(weight, first_row + r, views, n, dots);
        for (uint32_t i = 0; i < n; ++i) out[(first + i) * out_stride + r] = dots[i];
      }
    }
  }
};

struct Floats {
  static size_t row_bytes(uint32_t n_cols) { return round_up<size_t>(n_cols * sizeof(float), 64); }
  static void pack_row(const float* x, uint32_t n_cols, std::byte* to) {
    std::memcpy(to, x, n_cols * sizeof(float));
  }
  /// As math::dot, with the weights widened 64 at a time.
  static float dot(const Weight& weight, uint32_t row, const float* x) {
    const TypeInfo& info = type_info(weight.type);
    const std::byte* from = weight.data + row * weight.row_bytes;
    constexpr uint32_t chunk = 64;
    float lanes[8] = {}, widened[chunk];
    for (uint32_t first = 0; first < weight.n_cols; first += chunk) {
      const uint32_t n = std::min(chunk, weight.n_cols - first);
      info.unpack(from + size_t{first} * info.block_bytes, widened, n);
      for (uint32_t i = 0; i < n; ++i)
        lanes[i % 8] = std::fma(widened[i], x[first + i], lanes[i % 8]);
    }
    return math::join_lanes(lanes);
  }
  static void dot_rows(const Weight& weight, uint32_t first_row, uint32_t n_rows,
                       const std::byte* x, size_t x_stride, uint32_t n_x, float* out,
                       size_t out_stride) {
    for (uint32_t i = 0; i < n_x; ++i)
      for (uint32_t r = 0; r < n_rows; ++r)
        out[i * out_stride + r] =
            dot(weight, first_row + r, reinterpret_cast<const float*>(x + i * x_stride));
  }
};

void finish(const Epilogue& epilogue, const float* dots, const float* bias, float* out,
            uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    const float y = ops::finish(dots[i], bias != nullptr ? bias + i : nullptr, epilogue.activation,
                                epilogue.scale);
    out[i] = epilogue.accumulate ? out[i] + y : y;
  }
}

void finish_glu(Activation activation, const float* gate, const float* up, float* out, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) out[i] = ops::finish(gate[i], nullptr, activation, 1.0f) * up[i];
}

template <class Format>
constexpr ActivationKernels packing = {Format::row_bytes, Format::pack_row, nullptr, nullptr};
template <class Format>
constexpr WeightKernels dots = {Format::dot_rows, nullptr, nullptr, nullptr};

const ActivationKernels& activations(ops::ActivationFormat format) {
  switch (format) {
    case ops::ActivationFormat::q8_block32:
      return packing<Quantised<32>>;
    case ops::ActivationFormat::q8_block256:
      return packing<Quantised<256>>;
    case ops::ActivationFormat::f32:
      break;
  }
  return packing<Floats>;
}

const WeightKernels* weights(TensorType type) {
  switch (ops::activation_format(type)) {
    case ops::ActivationFormat::q8_block32:
      return &dots<Quantised<32>>;
    case ops::ActivationFormat::q8_block256:
      return &dots<Quantised<256>>;
    case ops::ActivationFormat::f32:
      break;
  }
  return &dots<Floats>;
}

}  // namespace

const LinearKernels& scalar_linear_kernels() {
  static constexpr LinearKernels kernels = {"scalar", UINT32_MAX, 1,           1,
                                            finish,   finish_glu, activations, weights};
  return kernels;
}

}  // namespace cera::cpu
