// Conversions against formulations of their own: decoding by the definition in double, encoding by
// searching the sorted list of all values.

#include "base/float16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace cera {
namespace {

struct Format {
  int exponent_bits, mantissa_bits;
  float (*decode)(uint16_t);
  uint16_t (*encode)(float);

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint16_t infinity() const { return uint16_t(((1 << exponent_bits) - 1) << mantissa_bits); }

  /// The value by definition; code without its sign, not NaN.
  double value(uint16_t code) const {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    if (code == infinity()) return std::numeric_limits<double>::infinity();
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias() - mantissa_bits);
  }

  /// Nearest code to a magnitude, ties to the even one. What would be the next power of two stands
  /// for infinity.
  uint16_t nearest(double magnitude) const {
    uint32_t low = 0, high = infinity();
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      (value(uint16_t(middle)) <= magnitude ? low : high) = middle;
    }
    const double above = high == infinity() ? std::ldexp(1, bias() + 1) : value(uint16_t(high));
    const double down = magnitude - value(uint16_t(low)), up = above - magnitude;
    if (down == up) return uint16_t(low % 2 == 0 ? low : high);
    return uint16_t(down < up ? low : high);
  }
};

const Format f16{5, 10, f16_to_f32, f32_to_f16};
const Format bf16{8, 7, bf16_to_f32, f32_to_bf16};

class Float16 : public testing::TestWithParam<Format> {};

TEST_P(Float16, EveryCodeDecodesAndComesBack) {
  const Format& format = GetParam();
  for (uint32_t code = 0; code < 65536; ++code) {
    const uint16_t magnitude = code & 0x7fff;
    const float decoded = format.decode(uint16_t(code));
    if (magnitude > format.infinity()) {
      ASSERT_TRUE(std::isnan(decoded)) << code;
      const uint16_t again = format.encode(decoded);
      ASSERT_GT(again & 0x7fff, format.infinity()) << code;
      ASSERT_EQ(again >> 15, code >> 15) << code;
      continue;
    }
    const double wanted = format.value(magnitude);
    ASSERT_EQ(double(std::fabs(decoded)), wanted) << code;
    ASSERT_EQ(std::signbit(decoded), code >= 0x8000) << code;
    ASSERT_EQ(format.encode(decoded), code);
  }
}

void check_encode(const Format& format, float value) {
  const uint16_t wanted =
      uint16_t((std::signbit(value) ? 0x8000 : 0) | format.nearest(std::fabs(double(value))));
  ASSERT_EQ(format.encode(value), wanted) << std::hexfloat << value;
}

TEST_P(Float16, EveryBorderRounds) {
  const Format& format = GetParam();
  for (uint16_t code = 0; code < format.infinity(); ++code) {
    const double below = format.value(code);
    const double above = code + 1 == format.infinity() ? std::ldexp(1, format.bias() + 1)
                                                       : format.value(uint16_t(code + 1));
    const float middle = float((below + above) / 2);
    if (std::isinf(middle)) continue;
    for (const float value :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY),
          std::nextafter(float(below), INFINITY)}) {
      if (std::isinf(value)) continue;
      check_encode(format, value);
      check_encode(format, -value);
    }
  }
}

TEST_P(Float16, RandomBitsRound) {
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    const float value = std::bit_cast<float>(uint32_t(random()));
    if (std::isnan(value)) {
      ASSERT_GT(GetParam().encode(value) & 0x7fff, GetParam().infinity());
    } else if (std::isinf(value)) {
      ASSERT_EQ(GetParam().encode(value) & 0x7fff, GetParam().infinity());
    } else {
      check_encode(GetParam(), value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Float16, testing::Values(f16, bf16), [](const auto& param_info) {
  return param_info.param.exponent_bits == 5 ? "f16" : "bf16";
});

}  // namespace
}  // namespace cera
