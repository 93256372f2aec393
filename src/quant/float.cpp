// F32, F16, BF16: one value per block.

#include "quant/codes.h"
#include "quant/families.h"

namespace cera::quant {
namespace {

template <class T, float (*decode)(T)>
void unpack(const std::byte* from, float* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = decode(value);
  }
}

template <class T, T (*encode)(float)>
void pack(const float* from, std::byte* to, size_t n) {
  for (size_t i = 0; i < n; ++i) store(to + i * sizeof(T), encode(from[i]));
}

void copy_in(const std::byte* from, float* to, size_t n) {
  if (n != 0) std::memcpy(to, from, n * sizeof(float));
}

void copy_out(const float* from, std::byte* to, size_t n) {
  if (n != 0) std::memcpy(to, from, n * sizeof(float));
}

constexpr TypeInfo rows[] = {
    {TensorType::f32, "F32", 1, 4, copy_in, copy_out},
    {TensorType::f16, "F16", 1, 2, unpack<uint16_t, f16_to_f32>, pack<uint16_t, f32_to_f16>},
    {TensorType::bf16, "BF16", 1, 2, unpack<uint16_t, bf16_to_f32>, pack<uint16_t, f32_to_bf16>},
};

}  // namespace

std::span<const TypeInfo> float_types() {
  return rows;
}

}  // namespace cera::quant
