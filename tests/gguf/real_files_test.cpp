// Published files: they open, fast, and hold what they should.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "gguf/exercise.h"

namespace cera::gguf {
namespace {

namespace fs = std::filesystem;

fs::path folder(const char* variable, const char* in_home) {
  if (const char* value = std::getenv(variable)) return value;
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : ".") / in_home;
}

bool required() {
  const char* value = std::getenv("CERA_REQUIRE_MODEL");
  return value && std::string_view(value) == "1";
}

#define CERA_SKIP_WITHOUT(path)                                        \
  if (!fs::exists(path)) {                                             \
    if (required()) FAIL() << (path) << " is missing";                 \
    GTEST_SKIP() << (path) << " is missing (CERA_MODELS, CERA_PEERS)"; \
  }

struct Model {
  const char* name;
  size_t n_tokens, n_tensors;
};

class RealModel : public testing::TestWithParam<Model> {};

/// Milliseconds of the fastest of three.
double opening_ms(const std::string& path) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto file = File::open(path);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(file.has_value());
    best = std::min(best, took.count());
  }
  return best;
}

TEST_P(RealModel, OpensFastAndWhole) {
  const std::string path = folder("CERA_MODELS", ".cache/cera-models") / GetParam().name;
  CERA_SKIP_WITHOUT(path);
  const auto opened = File::open(path);
  ASSERT_TRUE(opened.has_value()) << opened.error().text();
  const File& file = **opened;
  EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens").value().size(), GetParam().n_tokens);
  EXPECT_EQ(file.tensors().size(), GetParam().n_tensors);
  EXPECT_EQ(file.size_bytes(), fs::file_size(path));
  const double ms = opening_ms(path);
  RecordProperty("opening_ms", std::to_string(ms));
  EXPECT_LT(ms, 150);
}

TEST_P(RealModel, WeightsUnpackToFiniteNumbers) {
  const std::string path = folder("CERA_MODELS", ".cache/cera-models") / GetParam().name;
  CERA_SKIP_WITHOUT(path);
  const auto file = File::open(path).value();
  for (const TensorInfo& tensor : file->tensors()) {
    const TypeInfo* type = find_type(tensor.type_id);
    ASSERT_NE(type, nullptr) << tensor.name;
    std::vector<float> row(tensor.dimensions[0]);
    type->unpack(tensor.data, row.data(), row.size());
    for (const float value : row) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealModel,
                         testing::Values(Model{"smollm2.gguf", 49152, 272},
                                         Model{"qwen05.gguf", 151936, 291}),
                         [](const auto& param_info) {
                           return std::string(param_info.param.name).substr(0, 5);
                         });

TEST(RealVocabularies, AllOpen) {
  const fs::path models =
      folder("CERA_PEERS", ".cache/cera-peers") / "llama_cpp_python-0.3.36/vendor/llama.cpp/models";
  CERA_SKIP_WITHOUT(models);
  size_t n = 0;
  for (const auto& item : fs::directory_iterator(models)) {
    if (item.path().extension() != ".gguf") continue;
    const auto file = File::open(item.path().string());
    ASSERT_TRUE(file.has_value()) << file.error().text();
    EXPECT_GT((*file)->get_strings("tokenizer.ggml.tokens").value().size(), 1000u) << item.path();
    exercise_metadata(**file);
    ++n;
  }
  EXPECT_GT(n, 10u);
}

}  // namespace
}  // namespace cera::gguf
