// Quantises activations (ops::quantise_activations, the same bits) and packs them for the AVX2
// kernels.

#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>
#include <cstring>

#include "backends/cpu/x86/linear_avx2.h"
#include "base/checked.h"

#include "backends/cpu/x86/avx2_begin.h"

namespace cera::cpu::avx2 {
namespace {

constexpr uint32_t infinity_bits = 0x7f800000, nan_bits = 0x7fc00000;

/// The largest |x| of 32 values, as lanes. Magnitudes compare as integers, and non-finite ones are
/// the largest.
inline __m256i magnitude32(const float* x) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  const auto load = [&](int i) {
    return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 8 * i)), mask);
  };
  return _mm256_max_epi32(_mm256_max_epi32(load(0), load(1)), _mm256_max_epi32(load(2), load(3)));
}

inline uint32_t largest(__m256i lanes) {
  __m128i v = _mm_max_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
  return uint32_t(_mm_cvtsi128_si32(v));
}

struct Scale {
  float d, inverse;
};

inline Scale scale_of(uint32_t magnitude) {
  if (magnitude >= infinity_bits) return {std::bit_cast<float>(nan_bits), 0};
  const float amax = std::bit_cast<float>(magnitude);
  if (amax < 1e-30f) return {0, 0};
  return {amax / 127.0f, 127.0f / amax};
}

/// 32 codes in order. Inverse 0 stands for codes that are all 0, also where x is not finite.
inline __m256i quantise32(const float* x, float inverse) {
  if (inverse == 0) return _mm256_setzero_si256();
  const __m256 factor = _mm256_set1_ps(inverse);
  const auto code = [&](int i) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
  };
  const __m256i low = _mm256_packs_epi32(code(0), code(1)),
                high = _mm256_packs_epi32(code(2), code(3));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

/// Sums over 4 neighbours: 8 lanes.
inline __m256i sums4(__m256i q) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/// Sums of the two halves of 32 codes, in the low 32 bits of each 128-bit lane.
inline __m256i sums16(__m256i q) {
  __m256i s = sums4(q);
  s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
  return _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
}

struct Sums {
  int32_t low, high;
};

inline Sums sums_of(__m256i q) {
  const __m256i s = sums16(q);
  return {_mm256_extract_epi32(s, 0), _mm256_extract_epi32(s, 4)};
}

// ---- rows ----

size_t quad_row_bytes(uint32_t n_cols) {
  return quads_of(n_cols) * sizeof(RowQuad);
}

void pack_quad_row(const float* x, uint32_t n_cols, std::byte* to) {
  RowQuad* quads = reinterpret_cast<RowQuad*>(to);
  const uint32_t n_blocks = n_cols / 32;
  if (n_blocks % 4 != 0) std::memset(&quads[n_blocks / 4], 0, sizeof(RowQuad));
  for (uint32_t b = 0; b < n_blocks; ++b, x += 32) {
    RowQuad& quad = quads[b / 4];
    const Scale scale = scale_of(largest(magnitude32(x)));
    const __m256i q = quantise32(x, scale.inverse);
    const Sums sums = sums_of(q);
    const uint32_t i = b % 4;
    _mm_store_si128(reinterpret_cast<__m128i*>(quad.q[0][i & 1][i >> 1]),
                    _mm256_castsi256_si128(q));
    _mm_store_si128(reinterpret_cast<__m128i*>(quad.q[1][i & 1][i >> 1]),
                    _mm256_extracti128_si256(q, 1));
    quad.d[i] = scale.d;
    quad.sums[i] = sums.low + sums.high;
    quad.d_sums[i] = scale.d * float(sums.low + sums.high);
  }
}

Scale scale256(const float* x) {
  __m256i magnitude = magnitude32(x);
  for (uint32_t i = 1; i < 8; ++i) magnitude = _mm256_max_epi32(magnitude, magnitude32(x + 32 * i));
  return scale_of(largest(magnitude));
}

size_t super_row_bytes(uint32_t n_cols) {
  return n_cols / 256 * sizeof(RowSuper);
}

void pack_super_row(const float* x, uint32_t n_cols, std::byte* to) {
  RowSuper* super = reinterpret_cast<RowSuper*>(to);
  for (uint32_t b = 0; b < n_cols / 256; ++b, ++super, x += 256) {
    const Scale scale = scale256(x);
    super->d = scale.d;
    for (uint32_t i = 0; i < 8; ++i) {
      const __m256i q = quantise32(x + 32 * i, scale.inverse);
      const Sums sums = sums_of(q);
      _mm256_store_si256(reinterpret_cast<__m256i*>(super->q + 32 * i), q);
      super->sums16[2 * i] = int16_t(sums.low);
      super->sums16[2 * i + 1] = int16_t(sums.high);
      super->sums32[i] = int16_t(sums.low + sums.high);
    }
  }
}

// ---- groups ----

/// Stores 32 codes of four rows as [column / 4][row][column % 4], `step` bytes apart.
inline void interleave(const __m256i q[4], int8_t* to, size_t step) {
  const __m256i a = _mm256_unpacklo_epi32(q[0], q[1]), b = _mm256_unpackhi_epi32(q[0], q[1]);
  const __m256i c = _mm256_unpacklo_epi32(q[2], q[3]), d = _mm256_unpackhi_epi32(q[2], q[3]);
  const __m256i v[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                        _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + step * i), _mm256_castsi256_si128(v[i]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + step * (4 + i)),
                     _mm256_extracti128_si256(v[i], 1));
  }
}

/// Sums over the columns 0 1, 4 5, ... and 2 3, 6 7, ... of each half: int16 pairs in the low 32
/// bits of each 128-bit lane.
inline __m256i lane_sums16(__m256i q) {
  __m256i s = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
  s = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0x4e));
  return _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0xb1));
}

struct LaneSums {
  __m128i low, high;  // of the two halves, in the low 32 bits
};

inline LaneSums lane_sums_of(__m256i q) {
  const __m256i s = lane_sums16(q);
  return {_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)};
}

inline void store_pair(int16_t* to, __m128i pair) {
  const int32_t bits = _mm_cvtsi128_si32(pair);
  std::memcpy(to, &bits, sizeof bits);
}

inline int32_t sum_of_pair(const int16_t* pair) {
  return int32_t(pair[0]) + pair[1];
}

template <uint32_t n>
size_t group_block_bytes(uint32_t n_cols) {
  return round_up<size_t>(n_cols / 32 * sizeof(GroupBlock<n>), 64);
}

template <uint32_t n>
void pack_block_group(const float* const* x, uint32_t n_cols, std::byte* to) {
  auto* block = reinterpret_cast<GroupBlock<n>*>(to);
  for (uint32_t b = 0; b < n_cols / 32; ++b, ++block) {
    __m256i q[n];
    for (uint32_t i = 0; i < n; ++i) {
      const float* row = x[i] != nullptr ? x[i] + 32 * b : nullptr;
      const Scale scale = row != nullptr ? scale_of(largest(magnitude32(row))) : Scale{0, 0};
      q[i] = quantise32(row, scale.inverse);
      const LaneSums sums = lane_sums_of(q[i]);
      store_pair(block->lane_sums[i], _mm_add_epi16(sums.low, sums.high));
      block->d[i] = scale.d;
      block->d_sums[i] = scale.d * float(sum_of_pair(block->lane_sums[i]));
    }
    for (uint32_t i = 0; i < n; i += 4) interleave(q + i, block->q[0][i], sizeof block->q[0]);
  }
}

template <uint32_t n>
size_t group_super_bytes(uint32_t n_cols) {
  return round_up<size_t>(n_cols / 256 * sizeof(GroupSuper<n>), 64);
}

template <uint32_t n>
void pack_super_group(const float* const* x, uint32_t n_cols, std::byte* to) {
  auto* super = reinterpret_cast<GroupSuper<n>*>(to);
  for (uint32_t b = 0; b < n_cols / 256; ++b, ++super) {
    Scale scales[n] = {};
    for (uint32_t i = 0; i < n; ++i) {
      if (x[i] != nullptr) scales[i] = scale256(x[i] + 256 * b);
      super->d[i] = scales[i].d;
    }
    for (uint32_t part = 0; part < 8; ++part) {
      __m256i q[n];
      for (uint32_t i = 0; i < n; ++i) {
        const float* row = x[i] != nullptr ? x[i] + 256 * b + 32 * part : nullptr;
        q[i] = quantise32(row, scales[i].inverse);
        const LaneSums sums = lane_sums_of(q[i]);
        int16_t(&low)[2] = super->lane_sums[2 * part][i];
        int16_t(&high)[2] = super->lane_sums[2 * part + 1][i];
        store_pair(low, sums.low);
        store_pair(high, sums.high);
        super->sums[part / 2][i][part % 2] = int16_t(sum_of_pair(low) + sum_of_pair(high));
      }
      for (uint32_t i = 0; i < n; i += 4)
        interleave(q + i, super->q[8 * part][i], sizeof super->q[0]);
    }
  }
}

// ---- floats ----

size_t float_row_bytes(uint32_t n_cols) {
  return round_up<size_t>(padded(n_cols) * sizeof(float), 64);
}

void pack_float_row(const float* x, uint32_t n_cols, std::byte* to) {
  std::memcpy(to, x, n_cols * sizeof(float));
  std::memset(to + n_cols * sizeof(float), 0, (padded(n_cols) - n_cols) * sizeof(float));
}

template <uint32_t n>
size_t group_float_bytes(uint32_t n_cols) {
  return n * float_row_bytes(n_cols);
}

template <uint32_t n>
void pack_float_group(const float* const* x, uint32_t n_cols, std::byte* to) {
  for (uint32_t i = 0; i < n; ++i, to += float_row_bytes(n_cols)) {
    if (x[i] != nullptr)
      pack_float_row(x[i], n_cols, to);
    else
      std::memset(to, 0, float_row_bytes(n_cols));
  }
}

template <uint32_t n>
constexpr ActivationKernels by_format[kFormats] = {
    {float_row_bytes, pack_float_row, group_float_bytes<n>, pack_float_group<n>},
    {quad_row_bytes, pack_quad_row, group_block_bytes<n>, pack_block_group<n>},
    {super_row_bytes, pack_super_row, group_super_bytes<n>, pack_super_group<n>},
};
static_assert(int(ops::ActivationFormat::f32) == 0 && int(ops::ActivationFormat::q8_block32) == 1 &&
              int(ops::ActivationFormat::q8_block256) == 2);

}  // namespace

const ActivationKernels& activation_kernels(ops::ActivationFormat format, uint32_t group_rows) {
  return group_rows == 8 ? by_format<8>[size_t(format)] : by_format<4>[size_t(format)];
}

}  // namespace cera::cpu::avx2

#include "backends/cpu/x86/avx2_end.h"
#endif
