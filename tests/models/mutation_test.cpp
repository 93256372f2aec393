// Proof that the fidelity test sees every feature: turning one off, or altering it, moves the
// logits of a tiny model by at least ten times the tolerance that fidelity is held to (1e-3 of the
// largest logit).

#include <gtest/gtest.h>

#include <functional>

#include "models/runner.h"
#include "models/tiny_model.h"

namespace cera::tests {
namespace {

constexpr float kLeastMove = 10 * 1e-3f;

using ChangeFile = std::function<void(TinyFile&)>;
using ChangePlan = std::function<void(Plan&)>;

struct Mutation {
  std::string fixture;
  std::string what;
  ChangeFile change_file = {};
  ChangePlan change_plan = {};
};

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.what;
}

float move_of(const Mutation& mutation) {
  const Fixture fixture = load_fixture(mutation.fixture);
  TinyFile file = convert(fixture);
  if (mutation.change_file) mutation.change_file(file);
  const LoadedModel loaded = load(file);
  Plan plan = loaded.model->plan();
  if (mutation.change_plan) mutation.change_plan(plan);
  const RunnerOptions options{.tier = tiers().back()};
  const auto logits = Runner(plan, options).feed(fixture.ids, uint32_t(fixture.ids.size()));
  return largest_difference(logits, fixture.logits) / largest(fixture.logits);
}

// Changes of the file.

ChangeFile fill(std::string ending, float value) {
  return [=](TinyFile& file) {
    size_t changed = 0;
    for (auto& [name, tensor] : file.tensors) {
      if (!name.ends_with(ending)) continue;
      std::ranges::fill(tensor.values, value);
      ++changed;
    }
    ASSERT_GT(changed, 0u) << ending;
  };
}

ChangeFile set_float(std::string key, double value) {
  return [=](TinyFile& file) { file.set_float(file.key(key), value); };
}

ChangeFile set_string(std::string key, std::string value) {
  return [=](TinyFile& file) { file.set_string(file.key(key), value); };
}

ChangeFile erase_tensor(std::string name) {
  return [=](TinyFile& file) { ASSERT_EQ(file.tensors.erase(name), 1u); };
}

ChangeFile erase_key(std::string name) {
  return [=](TinyFile& file) { ASSERT_EQ(file.keys.erase(file.key(name)), 1u); };
}

/// A head of its own where the embedding should serve.
void untie(TinyFile& file) {
  TinyFile::Tensor head = file.tensors.at("token_embd.weight");
  head.values = random_values(7, head.values.size(), 0, 1);
  file.tensors["output.weight"] = head;
}

/// Exchanges two equal runs of rows in every tensor with this ending.
ChangeFile swap_rows(std::string ending, size_t first, size_t second, size_t n_rows) {
  return [=](TinyFile& file) {
    for (auto& [name, tensor] : file.tensors) {
      if (!name.ends_with(ending)) continue;
      const size_t width = tensor.dimensions.size() > 1 ? tensor.dimensions[0] : 1;
      std::swap_ranges(&tensor.values[first * width], &tensor.values[(first + n_rows) * width],
                       &tensor.values[second * width]);
    }
  };
}

/// Kernels read from the newest column to the oldest.
void reverse_taps(TinyFile& file) {
  for (auto& [name, tensor] : file.tensors) {
    if (!name.ends_with("shortconv.conv.weight")) continue;
    const size_t taps = tensor.dimensions[0];
    for (size_t i = 0; i < tensor.values.size(); i += taps)
      std::reverse(&tensor.values[i], &tensor.values[i] + taps);
  }
}

/// The columns of an earlier token count for nothing.
void drop_oldest_tap(TinyFile& file) {
  for (auto& [name, tensor] : file.tensors)
    if (name.ends_with("shortconv.conv.weight"))
      for (size_t i = 0; i < tensor.values.size(); i += tensor.dimensions[0]) tensor.values[i] = 0;
}

/// Query heads shared out in turn (0, 1, 0, 1) instead of in runs (0, 0, 1, 1): the middle two
/// change places.
ChangeFile interleave_groups(size_t head_dim) {
  return [=](TinyFile& file) {
    swap_rows("attn_q.weight", head_dim, 2 * head_dim, head_dim)(file);
    for (auto& [name, tensor] : file.tensors) {
      if (!name.ends_with("attn_output.weight")) continue;
      for (size_t row = 0; row < tensor.values.size(); row += tensor.dimensions[0])
        std::swap_ranges(&tensor.values[row + head_dim], &tensor.values[row + 2 * head_dim],
                         &tensor.values[row + 2 * head_dim]);
    }
  };
}

// Changes of the plan.

template <class OpType>
ChangePlan each(std::function<void(OpType&)> change) {
  return [=](Plan& plan) {
    size_t changed = 0;
    for (Op& op : plan.ops)
      if (auto* wanted = std::get_if<OpType>(&op)) change(*wanted), ++changed;
    ASSERT_GT(changed, 0u);
  };
}

ChangePlan rope_pairs(RopePairs pairs) {
  return [=](Plan& plan) { plan.ropes.at(0).pairs = pairs; };
}

void no_rope(Plan& plan) {
  plan.ropes.at(0) = RopeSpec();
}

/// Takes the attention, the convolution or the FFN of one layer out.
ChangePlan drop_layer(int32_t layer) {
  return [=](Plan& plan) {
    for (size_t i = 0; i < plan.ops.size();) {
      const auto* linear = std::get_if<LinearOp>(&plan.ops[i]);
      if (plan.layer_of_op[i] == layer && linear && linear->accumulate) {
        plan.ops.erase(plan.ops.begin() + ptrdiff_t(i));
        plan.layer_of_op.erase(plan.layer_of_op.begin() + ptrdiff_t(i));
      } else {
        ++i;
      }
    }
  };
}

std::vector<Mutation> mutations() {
  std::vector<Mutation> list = {
      {"llama", "factors_off", erase_tensor("rope_freqs.weight")},
      {"llama", "factors_of_one_size", fill("rope_freqs.weight", 8)},
      {"llama", "untied", untie},
      {"llama_linear", "scaling_off", set_string("rope.scaling.type", "none")},
      {"llama_linear", "scaling_factor", set_float("rope.scaling.factor", 4.4)},
      {"llama_linear", "tied", erase_tensor("output.weight")},
      {"llama_linear", "output_bias", fill("attn_output.bias", 0)},
      {"llama_yarn", "scaling_off", set_string("rope.scaling.type", "none")},
      {"llama_yarn", "linear_instead", set_string("rope.scaling.type", "linear")},
      {"llama_yarn", "factor", set_float("rope.scaling.factor", 5)},
      {"llama_yarn", "original_context", set_float("rope.scaling.original_context_length", 4096)},
      {"llama_yarn", "extrapolation", set_float("rope.scaling.yarn_ext_factor", 0)},
      {"llama_yarn", "beta_fast", set_float("rope.scaling.yarn_beta_fast", 4)},
      {"llama_yarn", "beta_slow", set_float("rope.scaling.yarn_beta_slow", 0.25)},
      {"llama_yarn", "magnitude", set_float("rope.scaling.attn_factor", 0.9)},
      {"qwen2", "tied", erase_tensor("output.weight")},
      {"qwen2_tied", "untied", untie},
      {"qwen2_tied", "magnitude", set_float("rope.scaling.yarn_attn_factor", 1)},
      {"qwen2_tied", "magnitude_key_off", erase_key("rope.scaling.yarn_attn_factor")},
      {"qwen3", "untied", untie},
      {"lfm2", "untied", untie},
      {"lfm2", "taps_reversed", reverse_taps},
      {"lfm2", "oldest_tap_off", drop_oldest_tap},
      {"lfm2", "b_and_c_swapped", swap_rows("shortconv.in_proj.weight", 0, 64, 64)},
      {"lfm2", "c_and_x_swapped", swap_rows("shortconv.in_proj.weight", 64, 128, 64)},
  };
  for (const std::string fixture : {"llama_linear", "qwen2", "qwen2_tied"})
    for (const std::string part : {"q", "k", "v"})
      list.push_back({fixture, "bias_" + part + "_off", fill("attn_" + part + ".bias", 0)});
  for (const std::string fixture : {"qwen3", "lfm2"}) {
    for (const std::string part : {"q", "k"})
      list.push_back({fixture, part + "_norm_gain", fill("attn_" + part + "_norm.weight", 1)});
    list.push_back(
        {fixture, "q_norm_off", {}, each<RopeStoreOp>([](RopeStoreOp& op) { op.q_norm = {}; })});
    list.push_back(
        {fixture, "k_norm_off", {}, each<RopeStoreOp>([](RopeStoreOp& op) { op.k_norm = {}; })});
  }
  for (const std::string fixture : {"llama", "qwen2", "qwen3", "lfm2"}) {
    const bool is_llama = fixture == "llama";
    const size_t head_dim = fixture == "qwen3" ? 24 : 16;
    const int32_t n_layers = fixture == "lfm2" ? 4 : 3;
    list.push_back({fixture, "rope_base", set_float("rope.freq_base", is_llama ? 700 : 1400)});
    list.push_back({fixture,
                    "rope_pairs",
                    {},
                    rope_pairs(is_llama ? RopePairs::halves : RopePairs::adjacent)});
    list.push_back({fixture, "rope_off", {}, no_rope});
    list.push_back({fixture, "norm_epsilon", set_float("attention.layer_norm_rms_epsilon", 0.2)});
    list.push_back({fixture, "attention_scale", {}, each<AttentionOp>([](AttentionOp& op) {
                      op.scale *= 1.1f;
                    })});
    list.push_back({fixture, "silu_off", {}, each<LinearGluOp>([](LinearGluOp& op) {
                      op.activation = Activation::none;
                    })});
    list.push_back({fixture, "gate_and_up_swapped", {}, each<LinearGluOp>([](LinearGluOp& op) {
                      std::swap(op.gate, op.up);
                    })});
    list.push_back({fixture, "query_groups", interleave_groups(head_dim)});
    list.push_back(
        {fixture, "kv_heads_swapped", swap_rows("attn_k.weight", 0, head_dim, head_dim)});
    list.push_back({fixture, "attn_norm_gain", fill("attn_norm.weight", 1)});
    list.push_back({fixture, "ffn_norm_gain", fill("ffn_norm.weight", 1)});
    list.push_back({fixture, "final_norm_gain",
                    fill(fixture == "lfm2" ? "token_embd_norm.weight" : "output_norm.weight", 1)});
    for (int32_t layer = 0; layer < n_layers; ++layer)
      list.push_back({fixture, fmt::format("layer_{}_off", layer), {}, drop_layer(layer)});
  }
  return list;
}

class Mutations : public ::testing::TestWithParam<Mutation> {};

TEST_P(Mutations, MovesTheLogits) {
  EXPECT_GE(move_of(GetParam()), kLeastMove);
}

/// Without a change the move is nought, so the moves are those of the changes.
TEST(Unchanged, DoesNotMoveTheLogits) {
  for (const std::string& name : fixture_names())
    EXPECT_LE(move_of({name, "nothing"}), kLeastMove / 100);
}

INSTANTIATE_TEST_SUITE_P(Models, Mutations, ::testing::ValuesIn(mutations()), [](const auto& test) {
  return test.param.fixture + "_" + test.param.what;
});

}  // namespace
}  // namespace cera::tests
