#pragma once
// A model: a GGUF file that has been understood. Owns the file, the small unpacked vectors and the
// Plan.

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/gguf.h"
#include "ops/plan.h"

namespace cera {

/// What every architecture has; read and validated by models/config.cpp.
struct ModelConfig {
  std::string architecture;  // general.architecture
  std::string name;          // general.name, may be empty
  uint32_t n_layers = 0;
  uint32_t n_embd = 0;
  uint32_t n_vocab = 0;         // rows of token_embd
  uint32_t context_length = 0;  // trained
  std::vector<uint32_t> n_heads, n_kv_heads,
      n_ff;  // per layer; n_kv_heads is 0 on layers without attention
  uint32_t head_dim = 0;
  float norm_eps = 0;
};

class Model {
 public:
  /// Reads config and weights, checks every shape, builds the plan. Errors name the key or tensor.
  static Result<std::shared_ptr<const Model>> load(std::shared_ptr<const gguf::File> file);

  const gguf::File& file() const { return *file_; }
  const ModelConfig& config() const { return config_; }
  const Plan& plan() const { return plan_; }

  /// Names of the architectures that load() knows, sorted.
  static std::vector<std::string> architectures();

 private:
  friend class ModelReader;
  std::shared_ptr<const gguf::File> file_;
  ModelConfig config_;
  std::vector<std::vector<float>>
      vectors_;  // unpacked norms, biases, taps; the plan's Vectors point here
  Plan plan_;
};

}  // namespace cera
