#pragma once
// Panels: weight rows unpacked for many activation rows, codes as [column / 4][row][4]. Included
// inside a region, after linear_codes_avx2.h.
//
// A tier describes its panels by a Layout: how many rows; whether 8-bit codes are split in two
// planes of four bits, high and low (otherwise they are biased by 128); how a sub-block's scale is
// stored.

namespace cera::cpu::avx2 {
namespace {

struct Nothing {};

template <uint32_t rows>
struct BlockMins {
  float m[rows];
};

/// 32 columns.
template <class F, class Layout>
struct BlockPanel : std::conditional_t<F::has_min, BlockMins<Layout::rows>, Nothing> {
  uint8_t q[F::is_signed && Layout::splits_bytes ? 2 : 1][8][Layout::rows][4];
  float d[Layout::rows];
};

template <uint32_t rows>
struct SuperMins {
  float m[rows];
  int16_t mins[4][rows][2];  // of sub-blocks 2 i and 2 i + 1
};

/// 256 columns.
template <class F, class Layout>
struct SuperPanel : std::conditional_t<F::has_min, SuperMins<Layout::rows>, Nothing> {
  uint8_t q[64][Layout::rows][4];
  typename Layout::Scale scales[256 / F::sub_block][Layout::rows];
  float d[Layout::rows];
};

// ---- unpacking ----

/// Rows of codes [rows][32] at `from` (stride bytes apart) -> [8][rows][4].
template <uint32_t rows>
void transpose_codes(const uint8_t* from, size_t stride, uint8_t* to) {
  for (uint32_t r = 0; r < rows; r += 4, from += 4 * stride, to += 16) {
    const __m256i r0 = load32(from), r1 = load32(from + stride), r2 = load32(from + 2 * stride),
                  r3 = load32(from + 3 * stride);
    const __m256i a = _mm256_unpacklo_epi32(r0, r1), b = _mm256_unpackhi_epi32(r0, r1);
    const __m256i c = _mm256_unpacklo_epi32(r2, r3), d = _mm256_unpackhi_epi32(r2, r3);
    const __m256i v[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                          _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
    for (uint32_t i = 0; i < 4; ++i) {
      _mm_store_si128(reinterpret_cast<__m128i*>(to + 4 * rows * i), _mm256_castsi256_si128(v[i]));
      _mm_store_si128(reinterpret_cast<__m128i*>(to + 4 * rows * (i + 4)),
                      _mm256_extracti128_si256(v[i], 1));
    }
  }
}

CERA_INLINE void store32(void* to, __m256i v) {
  _mm256_store_si256(static_cast<__m256i*>(to), v);
}

/// The rows of a panel; those past the weight's end repeat the last one.
template <uint32_t n>
struct PanelSource {
  const std::byte* rows[n];
  PanelSource(const Weight& weight, uint32_t first_row) {
    for (uint32_t r = 0; r < n; ++r)
      rows[r] = weight.data + std::min(first_row + r, weight.n_rows - 1) * weight.row_bytes;
  }
};

/// The f16 numbers at `offset` of all rows.
template <uint32_t n>
CERA_INLINE void load_halves(const PanelSource<n>& source, size_t offset, float* to) {
  alignas(32) uint16_t halves[n];
  for (uint32_t r = 0; r < n; ++r)
    __builtin_memcpy(&halves[r], source.rows[r] + offset, sizeof halves[r]);
  for (uint32_t r = 0; r < n; r += 8) _mm256_store_ps(to + r, _mm256_cvtph_ps(load16(halves + r)));
}

template <class F, class Layout>
void unpack_blocks(const Weight& weight, uint32_t first_row, std::byte* panel) {
  constexpr uint32_t rows = Layout::rows, n_planes = F::is_signed && Layout::splits_bytes ? 2 : 1;
  const PanelSource<rows> source(weight, first_row);
  auto* to = reinterpret_cast<BlockPanel<F, Layout>*>(panel);
  alignas(32) uint8_t codes[n_planes][rows][32];
  for (uint32_t b = 0; b < weight.n_cols / 32; ++b, ++to) {
    const size_t offset = size_t{b} * F::block_bytes;
    for (uint32_t r = 0; r < rows; r += 2) {
      __m256i h[2];
      F::halves(source.rows[r] + offset, source.rows[r + 1] + offset, h);
      const __m256i v[2] = {_mm256_permute2x128_si256(h[0], h[1], 0x20),
                            _mm256_permute2x128_si256(h[0], h[1], 0x31)};
      for (uint32_t i = 0; i < 2; ++i) {
        if constexpr (F::is_signed) {
          const __m256i biased = _mm256_xor_si256(v[i], _mm256_set1_epi8(-128));
          store32(codes[0][r + i], n_planes == 2 ? high_nibbles(biased) : biased);
          if constexpr (n_planes == 2) store32(codes[1][r + i], low_nibbles(biased));
        } else {
          store32(codes[0][r + i], v[i]);
        }
      }
    }
    for (uint32_t plane = 0; plane < n_planes; ++plane)
      transpose_codes<rows>(codes[plane][0], 32, to->q[plane][0][0]);
    load_halves(source, offset, to->d);
    if constexpr (F::has_min) load_halves(source, offset + 2, to->m);
  }
}

template <class Layout, uint32_t bits>
CERA_INLINE void unpack_scales(KNibbles<bits>, const PanelSource<Layout::rows>& source,
                               size_t offset, SuperPanel<KNibbles<bits>, Layout>& to) {
  for (uint32_t r = 0; r < Layout::rows; ++r) {
    alignas(16) uint8_t bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes),
                    scale_min_bytes(load16(source.rows[r] + offset)));
    for (uint32_t j = 0; j < 8; ++j) {
      to.scales[j][r] = Layout::scale(bytes[j]);
      to.mins[j / 2][r][j % 2] = bytes[8 + j];
    }
  }
  load_halves(source, offset, to.d);
  load_halves(source, offset + 2, to.m);
}

template <class Layout>
CERA_INLINE void unpack_scales(Q6_K, const PanelSource<Layout::rows>& source, size_t offset,
                               SuperPanel<Q6_K, Layout>& to) {
  for (uint32_t r = 0; r < Layout::rows; ++r) {
    const std::byte* scales = source.rows[r] + offset + Q6_K::scales_at;
    for (uint32_t j = 0; j < 16; ++j) to.scales[j][r] = Layout::scale(int8_t(scales[j]));
  }
  load_halves(source, offset + Q6_K::d_at, to.d);
}

template <class F, class Layout>
void unpack_supers(const Weight& weight, uint32_t first_row, std::byte* panel) {
  constexpr uint32_t rows = Layout::rows;
  const PanelSource<rows> source(weight, first_row);
  auto* to = reinterpret_cast<SuperPanel<F, Layout>*>(panel);
  alignas(32) uint8_t codes[rows][128];
  for (uint32_t b = 0; b < weight.n_cols / 256; ++b, ++to) {
    const size_t offset = size_t{b} * F::block_bytes;
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint32_t r = 0; r < rows; ++r) {
        __m256i v[4];
        F::codes(source.rows[r] + offset, half, v);
        for (uint32_t i = 0; i < 4; ++i) store32(codes[r] + 32 * i, v[i]);
      }
      for (uint32_t i = 0; i < 4; ++i)
        transpose_codes<rows>(codes[0] + 32 * i, 128, to->q[32 * half + 8 * i][0]);
    }
    unpack_scales<Layout>(F{}, source, offset, *to);
  }
}

template <class F, class Layout>
size_t block_panel_bytes(uint32_t n_cols) {
  return n_cols / 32 * sizeof(BlockPanel<F, Layout>);
}
template <class F, class Layout>
size_t super_panel_bytes(uint32_t n_cols) {
  return n_cols / 256 * sizeof(SuperPanel<F, Layout>);
}

}  // namespace
}  // namespace cera::cpu::avx2
