// The plan of each architecture, as text, against tests/models/snapshots; and how many ops a layer
// may cost. CERA_UPDATE_SNAPSHOTS=1 rewrites the snapshots.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "models/tiny_model.h"

namespace cera::tests {
namespace {

class PlanOf : public ::testing::TestWithParam<std::string> {};

TEST_P(PlanOf, EqualsItsSnapshot) {
  const LoadedModel loaded = load(convert(load_fixture(GetParam())));
  const std::string path =
      std::string(CERA_SOURCE_DIR) + "/tests/models/snapshots/" + GetParam() + ".txt";
  const std::string text = dump(loaded.model->plan());
  if (std::getenv("CERA_UPDATE_SNAPSHOTS") != nullptr) std::ofstream(path) << text;
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str());
}

/// Every op is a fork and join on a CPU and a dispatch on a GPU: 5 for a convolution layer, 6 for
/// attention, 3 around the layers. Layers of one kind share their activations.
TEST_P(PlanOf, StaysWithinItsBudget) {
  const LoadedModel loaded = load(convert(load_fixture(GetParam())));
  const Plan& plan = loaded.model->plan();
  const size_t attention_layers = plan.state.kv_layers.size();
  const size_t conv_layers = plan.state.conv_layers.size();
  EXPECT_EQ(attention_layers + conv_layers, loaded.model->config().n_layers);
  EXPECT_LE(plan.ops.size(), 6 * attention_layers + 5 * conv_layers + 3);
  EXPECT_LE(plan.buffers.size(), conv_layers == 0 ? 7u : 8u);
  EXPECT_EQ(plan.ops.size(), plan.layer_of_op.size());
}

/// The first inputs of the model fuzzer: if they did not load, it would fuzz error messages only.
TEST(RandomModels, OfEveryArchitectureLoad) {
  for (const std::string& architecture : Model::architectures()) {
    const auto loaded = try_load(random_model({.architecture = architecture,
                                               .width = 8,
                                               .hidden = 8,
                                               .vocab = 8,
                                               .heads = 2,
                                               .kv_heads = 1,
                                               .head_dim = 4})
                                     .bytes());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    EXPECT_EQ(loaded->model->config().architecture, architecture);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PlanOf, ::testing::Values("lfm2", "llama", "qwen2", "qwen3"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace cera::tests
