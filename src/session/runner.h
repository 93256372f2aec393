#pragma once
// Runs steps of one model on one backend, for all its sequences.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/error.h"
#include "models/model.h"
#include "session/sequence.h"
#include "text/tokenizer.h"

namespace cera {

struct RunnerOptions {
  uint32_t context_size = 4096;  // cells of each sequence
  uint32_t n_sequences = 1;      // alive at once
  uint32_t max_rows = 512;       // of one step: the prefill chunk
  uint32_t max_outputs =
      1;  // rows of one step whose logits are wanted; at least n_sequences is used
  KvType kv_type = KvType::f16;
};

/// One sequence's part of a step.
struct RunInput {
  Sequence* sequence;
  std::span<const text::TokenId> tokens;  // at least one
  uint32_t n_outputs = 0;                 // the last n of them want logits
};

/// Not thread-safe: one step at a time. Outlives its sequences.
class Runner {
 public:
  static Result<std::shared_ptr<Runner>> make(std::shared_ptr<const Model> model,
                                              std::shared_ptr<Backend> backend,
                                              const RunnerOptions& options);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Result<Sequence> new_sequence() { return Sequence::make(*store_); }

  /// Runs all inputs in one step and appends to their sequences. A sequence appears once; the sums
  /// of tokens and outputs stay within the options. Unknown token ids and a full context are
  /// errors; after an error no sequence has grown. No allocation, but for snapshots at page ends of
  /// recurrent models.
  Result<void> run(std::span<const RunInput> inputs);

  /// [vocab]: output i of the last step, counted over the inputs in order. Valid until the next
  /// run.
  std::span<const float> logits(uint32_t i) const;

  const Model& model() const { return *model_; }
  Backend& backend() { return *backend_; }
  Executable& executable() { return *executable_; }
  const StateMemory& state() const { return *state_; }
  const RunnerOptions& options() const { return options_; }
  uint32_t vocab_size() const { return model_->plan().vocab_size; }

 private:
  Runner(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend,
         RunnerOptions options)
      : model_(std::move(model)), backend_(std::move(backend)), options_(options) {}
  Result<void> check(std::span<const RunInput> inputs) const;
  void add_rows(const RunInput& input);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<Backend> backend_;
  RunnerOptions options_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<StateMemory> state_;
  std::unique_ptr<SequenceStore> store_;
  std::vector<Row> rows_;
  std::vector<SequenceView> views_;
};

/// Bytes of keys and values that `cells` cells take.
uint64_t kv_bytes(const StateSpec& state, KvType type, uint64_t cells);

}  // namespace cera
