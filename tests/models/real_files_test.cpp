// Published files load, and their next token makes sense. Skipped where the files are not there,
// unless CERA_REQUIRE_MODEL=1 says that they must be.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "models/model.h"
#include "models/runner.h"

namespace cera::tests {
namespace {

std::string model_path(const std::string& name) {
  if (const char* folder = std::getenv("CERA_MODELS")) return std::string(folder) + "/" + name;
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.cache/cera-models/" + name;
}

struct RealFile {
  std::string name;
  std::vector<int32_t> prompt;  // "The capital of France is"
  uint32_t n_layers;
};

class RealFiles : public ::testing::TestWithParam<RealFile> {};

TEST_P(RealFiles, KnowTheCapitalOfFrance) {
  const std::string path = model_path(GetParam().name);
  if (!std::filesystem::exists(path)) {
    const char* required = std::getenv("CERA_REQUIRE_MODEL");
    ASSERT_FALSE(required != nullptr && std::string(required) == "1") << path << " is missing";
    GTEST_SKIP() << path << " is missing; `make run` fetches the default model";
  }
  const auto file = gguf::File::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().text();
  const auto model = Model::load(*file);
  ASSERT_TRUE(model.has_value()) << model.error().text();
  EXPECT_EQ((*model)->config().n_layers, GetParam().n_layers);

  Runner runner((*model)->plan(),
                {.tier = tiers().back(), .n_threads = 2, .kv_type = KvType::f16, .max_cells = 64});
  const std::vector<float> logits =
      runner.feed(GetParam().prompt, uint32_t(GetParam().prompt.size()));
  const auto last = logits.end() - (*model)->config().n_vocab;
  const auto best = std::max_element(last, logits.end()) - last;
  const auto tokens = (*file)->get_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ((*tokens)[size_t(best)], "\u0120Paris");  // with the byte-level space
}

INSTANTIATE_TEST_SUITE_P(
    Models, RealFiles,
    ::testing::Values(RealFile{"smollm2.gguf", {504, 3575, 282, 4649, 314}, 30},
                      RealFile{"qwen05.gguf", {785, 6722, 315, 9625, 374}, 24}),
    [](const auto& test) { return test.param.name.substr(0, test.param.name.find('.')); });

}  // namespace
}  // namespace cera::tests
