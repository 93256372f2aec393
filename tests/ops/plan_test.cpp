#include "ops/plan.h"

#include <gtest/gtest.h>

#include <array>

namespace cera {
namespace {

Weight weight(const std::string& name, uint32_t n_rows, uint32_t n_cols,
              TensorType type = TensorType::f32) {
  const TypeInfo& info = type_info(type);
  return {name, nullptr, type, n_rows, n_cols, size_t(n_cols / info.block_size) * info.block_bytes};
}

Vector vector(size_t n) {
  static const std::array<float, 4096> values = {};
  return Vector(values).first(n);
}

NormSpec norm(size_t n) {
  return {vector(n), 1e-5f};
}

RopeSpec rope(uint32_t n_dims) {
  return {RopePairs::halves, n_dims, std::vector<double>(n_dims / 2, 0.5), 1};
}

constexpr HeadShape kHeads = {4, 2, 16};

/// The layers of a small hybrid model; `change` may spoil one thing.
struct Parts {
  Weight table = weight("token_embd.weight", 100, 64, TensorType::q8_0);
  std::vector<Weight> qkv = {weight("blk.0.attn_q.weight", 64, 64),
                             weight("blk.0.attn_k.weight", 32, 64, TensorType::f16),
                             weight("blk.0.attn_v.weight", 32, 64)};
  std::vector<Vector> biases = {vector(64), {}, vector(32)};
  NormSpec attn_norm = norm(64), q_norm = norm(16), k_norm = norm(32), ffn_norm = norm(64);
  RopeSpec rope_spec = rope(16);
  HeadShape heads = kHeads;
  Weight attn_output = weight("blk.0.attn_output.weight", 64, 64);
  Weight gate = weight("blk.0.ffn_gate.weight", 128, 64),
         up = weight("blk.0.ffn_up.weight", 128, 64);
  Weight down = weight("blk.0.ffn_down.weight", 64, 128);
  uint32_t conv_width = 64, taps = 3;
  Weight conv_in = weight("blk.1.shortconv.in_proj.weight", 192, 64);
  Vector conv_kernel = vector(192);
  Weight conv_out = weight("blk.1.shortconv.out_proj.weight", 64, 64);
  Weight output = weight("output.weight", 100, 64);
};

Result<Plan> build(const Parts& p) {
  PlanBuilder builder(100);
  const uint32_t rope_id = builder.add_rope(p.rope_spec);
  const BufferId x = builder.embed(p.table, 2);
  for (int layer : {0, 1, 2}) {
    builder.layer(layer);
    if (layer == 1) {
      const uint32_t conv = builder.add_conv_layer(p.conv_width, p.taps);
      const BufferId bcx = builder.linear(x, {p.conv_in}, {.norm = p.attn_norm});
      builder.linear_to(x, builder.short_conv(bcx, conv, p.conv_kernel), p.conv_out);
    } else {
      const uint32_t kv = builder.add_kv_layer(p.heads);
      LinearOptions options{.norm = p.attn_norm};
      options.biases = p.biases;
      const BufferId qkv = builder.linear(x, p.qkv, options);
      builder.rope_store(qkv, kv, p.heads, {p.q_norm, p.k_norm, rope_id});
      builder.linear_to(x, builder.attention(qkv, kv, p.heads, 0.25f), p.attn_output,
                        {.scale = 0.5f});
    }
    builder.linear_to(x, builder.linear_glu(x, p.gate, p.up, p.ffn_norm, Activation::silu), p.down);
  }
  builder.layer(-1);
  const BufferId last = builder.take_rows(x);
  builder.set_logits(builder.linear(last, {p.output}, {.norm = norm(64)}));
  return builder.finish();
}

TEST(Plan, DumpOfASmallModel) {
  auto plan = build({});
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(dump(*plan),
            R"(vocab 100 logits logits:5
buffer x:0 [step, 64]
buffer attn_q+attn_k+attn_v:1 [step, 128]
buffer attention:2 [step, 64]
buffer shortconv.in_proj:3 [step, 192]
buffer outputs:4 [outputs, 64]
buffer logits:5 [outputs, 100]
rope 0: halves 16 dims, frequencies 0.5 to 0.5, magnitude 1
kv 0: 2x16
kv 1: 2x16
conv 0: 64 taps 3
  - embed -> x:0 token_embd.weight Q8_0 [100, 64] * 2
  0 linear x:0 -> attn_q+attn_k+attn_v:1 norm 64 eps 1e-05 blk.0.attn_q.weight F32 [64, 64] bias blk.0.attn_k.weight F16 [32, 64] blk.0.attn_v.weight F32 [32, 64] bias
  0 rope_store attn_q+attn_k+attn_v:1 kv 0 heads 4/2x16 q_norm 16 eps 1e-05 k_norm 32 eps 1e-05 rope 0
  0 attention attn_q+attn_k+attn_v:1 -> attention:2 kv 0 heads 4/2x16 scale 0.25
  0 linear attention:2 +> x:0 blk.0.attn_output.weight F32 [64, 64] * 0.5
  0 linear_glu x:0 -> attn_q+attn_k+attn_v:1 norm 64 eps 1e-05 blk.0.ffn_gate.weight F32 [128, 64] blk.0.ffn_up.weight F32 [128, 64] silu
  0 linear attn_q+attn_k+attn_v:1 +> x:0 blk.0.ffn_down.weight F32 [64, 128]
  1 linear x:0 -> shortconv.in_proj:3 norm 64 eps 1e-05 blk.1.shortconv.in_proj.weight F32 [192, 64]
  1 short_conv shortconv.in_proj:3 -> attention:2 conv 0 taps 3
  1 linear attention:2 +> x:0 blk.1.shortconv.out_proj.weight F32 [64, 64]
  1 linear_glu x:0 -> attn_q+attn_k+attn_v:1 norm 64 eps 1e-05 blk.0.ffn_gate.weight F32 [128, 64] blk.0.ffn_up.weight F32 [128, 64] silu
  1 linear attn_q+attn_k+attn_v:1 +> x:0 blk.0.ffn_down.weight F32 [64, 128]
  2 linear x:0 -> attn_q+attn_k+attn_v:1 norm 64 eps 1e-05 blk.0.attn_q.weight F32 [64, 64] bias blk.0.attn_k.weight F16 [32, 64] blk.0.attn_v.weight F32 [32, 64] bias
  2 rope_store attn_q+attn_k+attn_v:1 kv 1 heads 4/2x16 q_norm 16 eps 1e-05 k_norm 32 eps 1e-05 rope 0
  2 attention attn_q+attn_k+attn_v:1 -> attention:2 kv 1 heads 4/2x16 scale 0.25
  2 linear attention:2 +> x:0 blk.0.attn_output.weight F32 [64, 64] * 0.5
  2 linear_glu x:0 -> attn_q+attn_k+attn_v:1 norm 64 eps 1e-05 blk.0.ffn_gate.weight F32 [128, 64] blk.0.ffn_up.weight F32 [128, 64] silu
  2 linear attn_q+attn_k+attn_v:1 +> x:0 blk.0.ffn_down.weight F32 [64, 128]
  - take_rows x:0 -> outputs:4
  - linear outputs:4 -> logits:5 norm 64 eps 1e-05 output.weight F32 [100, 64]
)");
}

TEST(Plan, MergesOnlyDisjointLifetimes) {
  PlanBuilder builder(8);
  const Weight square = weight("w", 8, 8);
  const BufferId a = builder.embed(weight("table", 8, 8));
  const BufferId b = builder.linear(a, {square});
  const BufferId c = builder.linear(b, {square});  // b's input dies here, a's does not
  builder.linear_to(a, c, square);
  const BufferId d = builder.linear(a, {square});  // may take b's or c's place
  const BufferId e = builder.take_rows(d);
  builder.set_logits(builder.linear(e, {square}));
  auto plan = builder.finish();
  ASSERT_TRUE(plan);
  const auto& linear = [&](size_t i) { return std::get<LinearOp>(plan->ops[i]); };
  EXPECT_EQ(linear(1).out, 1u);
  EXPECT_EQ(linear(2).in, 1u);
  EXPECT_EQ(linear(2).out, 2u) << "an op's output must not be its input";
  EXPECT_EQ(linear(3).out, 0u);
  EXPECT_EQ(linear(4).out, 1u) << "b and c are free by now";
  EXPECT_EQ(std::get<TakeRowsOp>(plan->ops[5]).out, 3u) << "output rows are another shape";
  EXPECT_EQ(plan->logits, 4u);
  EXPECT_EQ(plan->buffers.size(), 5u);
}

struct Mistake {
  const char* name;
  void (*spoil)(Parts&);
  const char* message;
};

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreReportedWithNamesAndNumbers) {
  Parts parts;
  GetParam().spoil(parts);
  auto plan = build(parts);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::malformed);
  EXPECT_EQ(plan.error().text(), GetParam().message);
}

const Mistake kMistakes[] = {
    {"Vocabulary", [](Parts& p) { p.table.n_rows = 99; },
     "token_embd.weight has 99 rows, but the vocabulary has 100 tokens"},
    {"InputWidth", [](Parts& p) { p.qkv[1].n_cols = 32; },
     "layer 0: blk.0.attn_k.weight has 32 columns, but its input \"x\" is 64 wide"},
    {"NormWidth", [](Parts& p) { p.ffn_norm = norm(63); },
     "layer 0: the norm before blk.0.ffn_gate.weight has 63 gains, but its input \"x\" is 64 wide"},
    {"BiasLength", [](Parts& p) { p.biases[2] = vector(31); },
     "layer 0: the bias of blk.0.attn_v.weight has 31 elements, but the matrix has 32 rows"},
    {"ResidualWidth", [](Parts& p) { p.attn_output.n_rows = 65; },
     "layer 0: blk.0.attn_output.weight has 65 rows, but is added to \"x\", which is 64 wide"},
    {"GateAndUp", [](Parts& p) { p.up.n_rows = 127; },
     "layer 0: blk.0.ffn_gate.weight has 128 rows and blk.0.ffn_up.weight has 127: they must be "
     "equal"},
    {"HeadWidth",
     [](Parts& p) {
       p.qkv[0].n_rows = 96;
       p.biases[0] = vector(96);
     },
     "layer 0: rope_store: \"attn_q+attn_k+attn_v\" is 160 wide, but 4 query and 2 x 2 key/value "
     "heads "
     "of 16 elements do not add up to that"},
    {"HeadGroups", [](Parts& p) { p.heads = {4, 3, 16}; },
     "layer 0: rope_store: 4 query heads, 3 key/value heads of 16 elements: the first must be a "
     "multiple "
     "of the second, and none may be 0"},
    {"NoHeads", [](Parts& p) { p.heads = {4, 0, 16}; },
     "layer 0: rope_store: 4 query heads, 0 key/value heads of 16 elements: the first must be a "
     "multiple "
     "of the second, and none may be 0"},
    {"HugeHeads", [](Parts& p) { p.heads = {1u << 31, 1u << 31, 1u << 31}; },
     "layer 0: rope_store: \"attn_q+attn_k+attn_v\" is 128 wide, but 2147483648 query and 2 x "
     "2147483648 "
     "key/value heads of 2147483648 elements do not add up to that"},
    {"QNorm", [](Parts& p) { p.q_norm = norm(20); },
     "layer 0: the q norm has 20 gains; expected 16 (per head) or 64 (all heads)"},
    {"RopeDims", [](Parts& p) { p.rope_spec = rope(18); },
     "layer 0: rope turns 18 dimensions, but a head has 16"},
    {"RopeFrequencies", [](Parts& p) { p.rope_spec.frequencies.pop_back(); },
     "rope: 16 dimensions need half as many frequencies, but there are 7"},
    {"ConvTaps", [](Parts& p) { p.taps = 1; },
     "layer 1: short_conv: width 64 and 1 taps; width must be positive and taps 2 to 64"},
    {"ConvInput", [](Parts& p) { p.conv_in.n_rows = 190; },
     "layer 1: short_conv: \"shortconv.in_proj\" is 190 wide, expected 3 x 64"},
    {"ConvKernel", [](Parts& p) { p.conv_kernel = vector(128); },
     "layer 1: short_conv: the kernel has 128 elements, expected 64 channels x 3 taps"},
    {"Head", [](Parts& p) { p.output.n_rows = 101; },
     "\"output\" is 101 wide, but the vocabulary has 100 tokens"},
    {"NoRows", [](Parts& p) { p.output.n_rows = 0; }, "output.weight: 0 output rows"},
};

INSTANTIATE_TEST_SUITE_P(Each, Mistakes, ::testing::ValuesIn(kMistakes),
                         [](const auto& entry) { return entry.param.name; });

}  // namespace
}  // namespace cera
