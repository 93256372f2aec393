#pragma once
// Real vocabularies: where they are, and what happens when they are not there.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace cera::text {

inline std::filesystem::path environment_path(const char* variable, const char* below_home) {
  if (const char* value = std::getenv(variable)) return value;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home ? home : "") / below_home;
}
inline std::filesystem::path models_folder() {
  return environment_path("CERA_MODELS", ".cache/cera-models");
}
inline std::filesystem::path peer_models_folder() {
  return environment_path("CERA_PEERS", ".cache/cera-peers") /
         "llama_cpp_python-0.3.36/vendor/llama.cpp/models";
}

inline bool models_are_required() {
  const char* value = std::getenv("CERA_REQUIRE_MODEL");
  return value && std::string(value) == "1";
}

inline Result<std::shared_ptr<const Tokenizer>> load_tokenizer(
    const std::filesystem::path& path, const TokenizerOptions& options = {}) {
  CERA_TRY(const auto file, gguf::File::open(path.string(), {.metadata_only = true}));
  return Tokenizer::from_gguf(*file, options);
}

}  // namespace cera::text

/// Leaves the test as skipped, or as failed where CERA_REQUIRE_MODEL=1.
#define CERA_NEEDS_FILE(path)                                                        \
  do {                                                                               \
    if (!std::filesystem::exists(path)) {                                            \
      if (cera::text::models_are_required()) FAIL() << (path) << " is missing";      \
      GTEST_SKIP() << (path) << " is not there (CERA_MODELS, CERA_PEERS say where)"; \
    }                                                                                \
  } while (false)
