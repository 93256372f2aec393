// linear and linear_glu of every tier against the scalar definition, bit for bit.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backends/cpu/aligned_memory.h"
#include "backends/cpu/lowered_op.h"
#include "base/float16.h"
#include "ops/linear.h"
#include "quant/types.h"

namespace cera::cpu {
namespace {

constexpr BufferId in_id = 0, out_id = 1;

std::vector<CpuTier> tiers() {
  std::vector<CpuTier> list;
  const CpuTier best = read_cpu_info().best_tier;
  for (const CpuTier tier : {CpuTier::scalar, CpuTier::avx2, CpuTier::avx512})
    if (tier <= best) list.push_back(tier);
  return list;
}

std::vector<TensorType> types() {
  std::vector<TensorType> list;
  for (const TypeInfo& info : all_types()) list.push_back(info.type);
  return list;
}

std::vector<float> random_floats(size_t n, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

/// A packed matrix in memory that ends with its last byte and is not aligned.
struct Matrix {
  std::vector<std::byte> bytes;
  Weight weight;

  Matrix(TensorType type, uint32_t n_rows, uint32_t n_cols) {
    const TypeInfo& info = type_info(type);
    weight.name = "w";
    weight.type = type;
    weight.n_rows = n_rows;
    weight.n_cols = n_cols;
    weight.row_bytes = size_t{n_cols} / info.block_size * info.block_bytes;
    bytes.resize(1 + n_rows * weight.row_bytes);
    weight.data = bytes.data() + 1;
  }
  Matrix(TensorType type, uint32_t n_rows, uint32_t n_cols, uint32_t seed)
      : Matrix(type, n_rows, n_cols) {
    const auto values = random_floats(size_t{n_rows} * n_cols, seed, 0.3f);
    for (uint32_t r = 0; r < n_rows; ++r)
      type_info(type).pack(values.data() + size_t{r} * n_cols, row(r), n_cols);
  }
  Matrix(Matrix&&) = default;

  std::byte* row(uint32_t r) { return bytes.data() + 1 + r * weight.row_bytes; }

  /// Calls edit(block) for every block.
  template <class Edit>
  void for_blocks(Edit edit) {
    const size_t block_bytes = type_info(weight.type).block_bytes;
    for (size_t at = 1; at < bytes.size(); at += block_bytes) edit(bytes.data() + at);
  }
};

struct Options {
  bool norm = false, bias = false, accumulate = false;
  Activation activation = Activation::none;
  float scale = 1;
};

/// An op, its definition's result and the means to run it.
struct Case {
  std::vector<Matrix> matrices;
  bool glu = false;
  Options options;
  std::vector<float> gain, bias_values, in, before;
  LinearOp linear;
  LinearGluOp linear_glu;
  uint32_t n_cols, width = 0, n_rows;

  Case(std::vector<Matrix> weights, bool is_glu, Options how, uint32_t rows, uint32_t seed = 1)
      : matrices(std::move(weights)), glu(is_glu), options(how), n_rows(rows) {
    n_cols = matrices[0].weight.n_cols;
    for (const Matrix& m : matrices) width += m.weight.n_rows;
    if (glu) width /= 2;
    in = random_floats(size_t{n_rows} * n_cols, seed + 1);
    before = random_floats(size_t{n_rows} * width, seed + 2);
    gain = random_floats(n_cols, seed + 3);
    bias_values = random_floats(width, seed + 4);
    NormSpec norm;
    if (options.norm) norm = {gain, 1e-5f};
    if (glu) {
      linear_glu = {
          in_id, out_id, norm, matrices[0].weight, matrices[1].weight, options.activation};
      return;
    }
    linear = {in_id, out_id, norm, {}, {}, options.activation, options.scale, options.accumulate};
    uint32_t at = 0;
    for (const Matrix& m : matrices) {
      linear.weights.push_back(m.weight);
      // One of several matrices goes without a bias.
      const bool has = options.bias && (linear.weights.size() != 2 || matrices.size() < 2);
      if (options.bias)
        linear.biases.push_back(has ? Vector(bias_values).subspan(at, m.weight.n_rows) : Vector{});
      at += m.weight.n_rows;
    }
  }

  std::vector<float> define() const {
    std::vector<float> out = before;
    if (glu)
      ops::define(linear_glu, in.data(), out.data(), n_rows);
    else
      ops::define(linear, in.data(), out.data(), n_rows);
    return out;
  }

  Lowered lower(CpuTier tier, uint32_t n_threads, uint32_t max_rows, Plan& plan) const {
    plan.buffers = {{n_cols, RowSet::step, "in"}, {width, RowSet::step, "out"}};
    const LowerContext context{plan, tier, n_threads, max_rows, 1};
    return glu ? lower_linear_glu(linear_glu, context) : lower_linear(linear, context);
  }

  /// Runs `n` rows from row `first` in one step; the rest of the result is `before`.
  void run(LoweredOp& op, ThreadPool& pool, uint32_t first, uint32_t n,
           std::vector<float>& out) const {
    // Exact buffers, so that a sanitizer sees a read or write past a row.
    std::vector<float> in_rows(in.begin() + size_t{first} * n_cols,
                               in.begin() + size_t{first + n} * n_cols);
    std::vector<float> out_rows(out.begin() + size_t{first} * width,
                                out.begin() + size_t{first + n} * width);
    auto scratch = allocate_aligned(op.scratch_bytes(), "scratch");
    std::memset(scratch->get(), 0xff, op.scratch_bytes());  // NaN everywhere
    auto state = CpuState::make({}, {});
    float* buffers[] = {in_rows.data(), out_rows.data()};
    const Step step;
    op.run({pool, step, **state, buffers, n, 0, nullptr, nullptr, nullptr, scratch->get()});
    std::copy(out_rows.begin(), out_rows.end(), out.begin() + size_t{first} * width);
  }
};

/// Equal bits, or both NaN.
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

void expect_same(const Case& c, const std::vector<float>& expected, const std::vector<float>& got,
                 uint32_t n_rows, const std::string& what) {
  uint32_t wrong = 0;
  for (size_t i = 0; i < size_t{n_rows} * c.width && wrong < 3; ++i) {
    if (same(expected[i], got[i])) continue;
    ++wrong;
    ADD_FAILURE() << what << ": row " << i / c.width << " of " << n_rows << ", output "
                  << i % c.width << ": " << got[i] << " instead of " << expected[i];
  }
}

std::string describe(const Case& c, CpuTier tier) {
  std::string text(tier_name(tier));
  for (const Matrix& m : c.matrices)
    text +=
        fmt::format(" {}[{}x{}]", type_info(m.weight.type).name, m.weight.n_rows, m.weight.n_cols);
  return text + (c.glu ? " glu" : "");
}

/// All rows in one step and in steps of each of `chunks`, in every tier.
void check(const Case& c, std::vector<uint32_t> chunks = {}, uint32_t n_threads = 2) {
  const std::vector<float> expected = c.define();
  ThreadPool pool(n_threads);
  chunks.push_back(c.n_rows);
  for (const CpuTier tier : tiers()) {
    Plan plan;
    auto op = c.lower(tier, n_threads, c.n_rows, plan);
    ASSERT_TRUE(op.has_value()) << op.error().text();
    for (const uint32_t chunk : chunks) {
      std::vector<float> got = c.before;
      for (uint32_t first = 0; first < c.n_rows; first += chunk)
        c.run(**op, pool, first, std::min(chunk, c.n_rows - first), got);
      expect_same(c, expected, got, c.n_rows, fmt::format("{} by {}", describe(c, tier), chunk));
    }
  }
}

std::vector<Matrix> matrices(std::vector<TensorType> list, std::vector<uint32_t> n_rows,
                             uint32_t n_cols) {
  std::vector<Matrix> result;
  for (size_t i = 0; i < list.size(); ++i)
    result.emplace_back(list[i], n_rows[i], n_cols, uint32_t(100 + i));
  return result;
}

class LinearOfType : public testing::TestWithParam<TensorType> {
 protected:
  uint32_t block() const { return std::max(8u, type_info(GetParam()).block_size); }
};

TEST_P(LinearOfType, EveryRowCountTo17And33) {
  const Case c(matrices({GetParam()}, {35}, 2 * std::max(32u, block())), false, {}, 33);
  std::vector<uint32_t> chunks;
  for (uint32_t n = 1; n <= 17; ++n) chunks.push_back(n);
  check(c, chunks);
}

TEST_P(LinearOfType, Widths) {
  for (const uint32_t blocks : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 18u}) {
    const uint32_t n_rows = blocks % 2 ? 16 : 3;
    check(Case(matrices({GetParam()}, {n_rows}, blocks * block()), false, {}, 6, blocks),
          {1, 2, 4});
  }
}

TEST_P(LinearOfType, ThreeMatricesWithEverything) {
  const Options options{true, true, true, Activation::silu, 0.7f};
  const TensorType t = GetParam();
  check(Case(matrices({t, t, t}, {33, 16, 7}, 2 * block()), false, options, 9), {1, 3, 4});
}

TEST_P(LinearOfType, Glu) {
  const TensorType t = GetParam();
  check(Case(matrices({t, t}, {37, 37}, 2 * block()), true, {true, false, false, Activation::silu},
             9),
        {1, 2, 5});
}

TEST_P(LinearOfType, Extremes) {
  // The largest and smallest codes against activations that all quantise to 127 or to -127: the
  // worst case of narrow accumulators. Random bytes are valid codes of every quantised type.
  const TypeInfo& info = type_info(GetParam());
  if (info.block_size == 1) GTEST_SKIP() << "no codes";
  std::mt19937 random(7);
  Matrix m(GetParam(), 19, 1024);
  size_t index = 0;
  m.for_blocks([&](std::byte* block) {
    const size_t kind = index++ % 4;
    for (uint32_t i = 0; i < info.block_bytes; ++i)
      block[i] = kind == 0   ? std::byte{0xff}
                 : kind == 1 ? std::byte{0}
                 : kind == 2 ? std::byte{0x80}
                             : std::byte(random());
    const uint16_t d = f32_to_f16(0.01f), m_value = f32_to_f16(-0.02f);
    const size_t at = GetParam() == TensorType::q6_k ? 208 : 0;
    std::memcpy(block + at, &d, sizeof d);
    if (at == 0 && info.block_bytes != 34 && GetParam() != TensorType::q4_0 &&
        GetParam() != TensorType::q5_0)
      std::memcpy(block + 2, &m_value, sizeof m_value);
  });
  std::vector<Matrix> list;
  list.push_back(std::move(m));
  Case c(std::move(list), false, {}, 8);
  for (uint32_t t = 0; t < c.n_rows; ++t) {
    for (uint32_t k = 0; k < c.n_cols; ++k) {
      const float sign = t == 0      ? 1.0f
                         : t == 1    ? -1.0f
                         : t == 2    ? (k % 2 ? 1.0f : -1.0f)
                         : t == 3    ? (k % 4 < 2 ? 1.0f : -1.0f)
                         : k % 7 < 3 ? 1.0f
                                     : -1.0f;
      c.in[size_t{t} * c.n_cols + k] = 3.0f * sign;
    }
  }
  check(c, {1, 4});
}

TEST_P(LinearOfType, NonFiniteRowsStayAlone) {
  Case c(matrices({GetParam()}, {21}, 256), false, {}, 9);
  const std::vector<float> clean = c.define();
  const float inf = std::numeric_limits<float>::infinity();
  c.in[2 * 256 + 17] = std::numeric_limits<float>::quiet_NaN();
  c.in[5 * 256 + 200] = inf;
  c.in[6 * 256 + 255] = -inf;
  for (uint32_t k = 0; k < 256; ++k) c.in[7 * 256 + k] = 0;
  for (uint32_t k = 0; k < 256; ++k) c.in[8 * 256 + k] = 1e-38f;
  check(c, {1, 4});
  const std::vector<float> faulty = c.define();
  for (uint32_t r = 0; r < c.width; ++r) {
    EXPECT_TRUE(std::isnan(faulty[2 * c.width + r]));
    EXPECT_FALSE(std::isfinite(faulty[5 * c.width + r]));
    EXPECT_FALSE(std::isfinite(faulty[6 * c.width + r]));
    for (uint32_t t : {0u, 1u, 3u, 4u})
      EXPECT_TRUE(same(clean[t * c.width + r], faulty[t * c.width + r]));
  }
}

TEST_P(LinearOfType, NonFiniteScalesOfAWeightRowStayThere) {
  const TypeInfo& info = type_info(GetParam());
  auto list = matrices({GetParam()}, {21}, 256);
  const uint16_t bad = GetParam() == TensorType::bf16 ? 0x7f80 : 0x7c00;
  const uint32_t f32_inf = 0x7f800000;
  std::byte* row = list[0].row(3);
  if (GetParam() == TensorType::f32)
    std::memcpy(row, &f32_inf, 4);
  else
    std::memcpy(row + (GetParam() == TensorType::q6_k ? 208 : 0), &bad, 2);
  Case c(std::move(list), false, {}, 6);
  check(c, {1, 4});
  const std::vector<float> out = c.define();
  for (uint32_t t = 0; t < 6; ++t) {
    EXPECT_FALSE(std::isfinite(out[t * c.width + 3])) << info.name;
    EXPECT_TRUE(std::isfinite(out[t * c.width + 2]) && std::isfinite(out[t * c.width + 4]));
  }
}

TEST_P(LinearOfType, AnInfiniteScaleAtTheEndOfARow) {
  // The kernels read blocks past a row's end as copies of the last one: an infinity there must not
  // count twice.
  const TypeInfo& info = type_info(GetParam());
  if (info.block_size == 1) GTEST_SKIP() << "no scales";
  auto list = matrices({GetParam()}, {3}, 5 * info.block_size);
  const uint16_t infinite = 0x7c00;
  std::byte* last = list[0].row(1) + 4 * info.block_bytes;
  std::memcpy(last + (GetParam() == TensorType::q6_k ? 208 : 0), &infinite, sizeof infinite);
  check(Case(std::move(list), false, {}, 5), {1, 4});
}

INSTANTIATE_TEST_SUITE_P(Types, LinearOfType, testing::ValuesIn(types()),
                         [](const auto& p) { return std::string(type_info(p.param).name); });

TEST(Linear, FloatsOfAnyWidth) {
  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16})
    for (const uint32_t n_cols : {1u, 3u, 7u, 9u, 12u, 31u, 100u})
      check(Case(matrices({type}, {18}, n_cols), false, {true, true, true, Activation::silu, 2}, 5),
            {1, 4});
}

TEST(Linear, ATinySumKeepsItsSign) {
  // -0 in a lane that the last, partial vector does not reach.
  Matrix m(TensorType::f32, 1, 9);
  const std::vector<float> w = {1e-30f, 1e-30f, 1e-30f, 1e-30f, 1e-30f,
                                1e-30f, 1e-30f, 1e-30f, 1e-30f};
  type_info(TensorType::f32).pack(w.data(), m.row(0), 9);
  std::vector<Matrix> list;
  list.push_back(std::move(m));
  Case c(std::move(list), false, {}, 5);
  for (float& x : c.in) x = -1e-30f;
  check(c, {1, 4});
}

TEST(Linear, SiluOfExtremeValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {-inf,   -1e30f,  -200,  -88.1f, -87.4f,       -87.33f, -87.3f,
                                     -1,     -1e-30f, -0.0f, 0,      1e-40f,       1,       87,
                                     88.02f, 88.1f,   200,   inf,    std::nanf("")};
  // One product of each with 1: the outputs are silu(values), and silu(values) * values.
  std::vector<Matrix> list;
  for (int i = 0; i < 2; ++i) {
    list.emplace_back(TensorType::f32, uint32_t(values.size()), 1);
    type_info(TensorType::f32).pack(values.data(), list.back().row(0), values.size());
  }
  for (const bool glu : {false, true}) {
    Options options;
    options.activation = Activation::silu;
    std::vector<Matrix> some;
    for (const Matrix& m : list) {
      some.emplace_back(TensorType::f32, m.weight.n_rows, 1);
      some.back().bytes = m.bytes;
      some.back().weight.data = some.back().bytes.data() + 1;
    }
    Case c(std::move(some), glu, options, 5);
    for (float& x : c.in) x = 1;
    check(c, {1, 4});
  }
}

TEST(Linear, MixedTypesInOneOp) {
  using enum TensorType;
  const Options all{true, true, false, Activation::none, 1};
  check(Case(matrices({q4_k, q4_k, q6_k}, {40, 16, 16}, 512), false, all, 9), {1, 3});
  check(Case(matrices({q5_0, q8_0}, {40, 16}, 96), false, all, 9), {1, 3});
  check(Case(matrices({f32, q4_k, q4_0}, {5, 40, 16}, 256), false, all, 9), {1, 3});
  check(Case(matrices({q4_k, f16}, {24, 24}, 256), true, {true}, 9), {1, 3});
  check(Case(matrices({q8_0, q6_k}, {24, 24}, 256), true, {}, 9), {1, 3});
}

TEST(Linear, OptionsOneByOne) {
  for (uint32_t bits = 0; bits < 32; ++bits) {
    const Options options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
                          bits & 8 ? Activation::silu : Activation::none, bits & 16 ? 0.25f : 1.0f};
    check(Case(matrices({TensorType::q4_1}, {20}, 64), false, options, 5, bits), {1});
  }
}

TEST(Linear, ManyRowsInOneStep) {
  for (const TensorType type : {TensorType::q4_1, TensorType::q6_k, TensorType::f16})
    check(Case(matrices({type}, {21}, 256), false, {true}, 512), {509});
}

TEST(Linear, AnyNumberOfThreads) {
  // Tall and flat matrices: tasks are ranges of weight rows, and of activation rows where those are
  // too few.
  for (const uint32_t n_threads : {1u, 2u, 3u, 8u}) {
    check(Case(matrices({TensorType::q8_0, TensorType::q4_0}, {700, 70}, 64), false, {true}, 11),
          {1, 2}, n_threads);
    check(Case(matrices({TensorType::q8_0}, {16}, 512), false, {}, 200), {64}, n_threads);
    check(Case(matrices({TensorType::q4_1, TensorType::q4_1}, {500, 500}, 64), true, {true}, 7),
          {1}, n_threads);
  }
}

TEST(Linear, StepsOfDifferentSizeShareOneLoweredOp) {
  const Case c(matrices({TensorType::q4_0}, {48}, 128), false, {true}, 40);
  const std::vector<float> expected = c.define();
  ThreadPool pool(2);
  for (const CpuTier tier : tiers()) {
    Plan plan;
    auto op = c.lower(tier, 2, 64, plan);
    ASSERT_TRUE(op.has_value());
    for (const uint32_t n : {40u, 1u, 17u, 2u, 4u}) {
      std::vector<float> got = c.before;
      c.run(**op, pool, 0, n, got);
      expect_same(c, expected, got, n, describe(c, tier));
    }
    std::vector<float> untouched = c.before;
    c.run(**op, pool, 0, 0, untouched);
    EXPECT_EQ(untouched, c.before);
  }
}

TEST(Linear, NamesItsKernel) {
  const Case c(matrices({TensorType::q4_k, TensorType::q6_k}, {16, 16}, 256), false, {}, 1);
  Plan plan;
  const auto op = c.lower(CpuTier::scalar, 1, 1, plan);
  ASSERT_TRUE(op.has_value());
  EXPECT_EQ((*op)->kernel_name(), "scalar linear Q4_K+Q6_K");
}

}  // namespace
}  // namespace cera::cpu
