#pragma once
// What an architecture file builds with: checked tensors, the plan builder, and a list of mistakes.
//
// Nothing here returns a Result, so that architectures read as a list of ops. A mistake of the file
// is noted, a stand-in of the right shape is handed out, and finish() returns the first mistake. A
// tensor of the file that nobody asked for is a mistake too: dropping a weight gives another model.

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/keys.h"
#include "models/model.h"
#include "models/rope.h"
#include "ops/plan.h"

namespace cera {

class ModelReader {
 public:
  ModelReader(std::shared_ptr<const gguf::File> file, ModelConfig config, KeyReader& keys);

  const ModelConfig& config() const { return model_->config_; }
  PlanBuilder& plan() { return plan_; }

  /// Starts block `index`: tensor names are the block's own from here on ("attn_q.weight" is
  /// "blk.3.attn_q.weight"), and so are ops. Before the first block and after end_layers they are
  /// the file's.
  void begin_layer(uint32_t index);
  void end_layers();
  uint32_t layer() const { return uint32_t(layer_); }
  bool is_last_layer() const { return layer_ + 1 == int32_t(config().n_layers); }

  bool has(std::string_view tensor) const;
  /// [n_rows, n_cols] of any type.
  Weight matrix(std::string_view tensor, uint32_t n_rows, uint32_t n_cols);
  /// Unpacked to f32; `dimensions` as in the file, the contiguous one first.
  Vector vector(std::string_view tensor, std::vector<uint32_t> dimensions);
  /// Empty when the file has no such tensor.
  Vector optional_vector(std::string_view tensor, uint32_t size);
  /// RMS norm with the model's epsilon.
  NormSpec norm(std::string_view tensor, uint32_t width);
  /// The rope of the metadata and of rope_freqs.weight; an index for RopeStoreOptions.
  uint32_t rope(RopePairs pairs);
  /// A required key of the architecture; 0 with a mistake noted.
  uint32_t uint(std::string_view key);

  /// Notes a mistake that the reader itself cannot see. {} in `message` is not a placeholder.
  void mistake(ErrorCode code, std::string message);
  /// Full name of a tensor of the current block, for messages.
  std::string full_name(std::string_view tensor) const;

  Result<std::shared_ptr<const Model>> finish();

 private:
  const gguf::TensorInfo* find(std::string_view tensor, const std::vector<uint32_t>& dimensions);
  void check_types();
  void check_unused();

  std::shared_ptr<Model> model_;
  KeyReader& keys_;
  PlanBuilder plan_;
  int32_t layer_ = -1;
  std::set<std::string, std::less<>> used_;
  std::vector<Error> mistakes_;
};

}  // namespace cera
