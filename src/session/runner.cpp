#include "session/runner.h"

#include <algorithm>

#include "base/assert.h"
#include "base/checked.h"

namespace cera {

Result<std::shared_ptr<Runner>> Runner::make(std::shared_ptr<const Model> model,
                                             std::shared_ptr<Backend> backend,
                                             const RunnerOptions& options) {
  CERA_ASSERT(options.context_size > 0 && options.n_sequences > 0 && options.max_rows > 0);
  std::shared_ptr<Runner> runner(new Runner(std::move(model), std::move(backend), options));
  RunnerOptions& o = runner->options_;
  o.max_outputs = std::max(o.max_outputs, o.n_sequences);
  o.max_rows = std::max(o.max_rows, o.max_outputs);

  const Plan& plan = runner->model_->plan();
  CERA_TRY(runner->executable_, runner->backend_->prepare(plan, {o.max_rows, o.max_outputs}));
  StateSize size;
  size.n_pages = div_up(o.context_size, kPageCells) * o.n_sequences;
  size.n_slots = o.n_sequences;
  size.kv_type = o.kv_type;
  CERA_TRY(runner->state_, runner->backend_->make_state(plan.state, size));
  runner->store_ = std::make_unique<SequenceStore>(*runner->state_, !plan.state.conv_layers.empty(),
                                                   o.context_size);
  runner->rows_.reserve(o.max_rows);
  runner->views_.reserve(o.n_sequences);
  return runner;
}

Result<void> Runner::run(std::span<const RunInput> inputs) {
  CERA_CHECK(check(inputs));
  for (const RunInput& input : inputs)
    CERA_CHECK(input.sequence->prepare(uint32_t(input.tokens.size())));
  rows_.clear();
  views_.clear();
  for (const RunInput& input : inputs) add_rows(input);
  if (auto ran = executable_->submit({rows_, views_}, *state_); !ran) {
    for (const RunInput& input : inputs) input.sequence->abandon();
    return ran;
  }
  for (const RunInput& input : inputs) input.sequence->commit(uint32_t(input.tokens.size()));
  return {};
}

Result<void> Runner::check(std::span<const RunInput> inputs) const {
  size_t n_rows = 0, n_outputs = 0;
  for (const RunInput& input : inputs) {
    CERA_ASSERT(!input.tokens.empty() && input.n_outputs <= input.tokens.size());
    n_rows += input.tokens.size();
    n_outputs += input.n_outputs;
    for (const text::TokenId token : input.tokens)
      if (uint32_t(token) >= vocab_size())  // negative ones too
        return fail(ErrorCode::invalid_argument, "tokens",
                    "token {} is not in the model's vocabulary of {}", token, vocab_size());
  }
  CERA_ASSERT(n_rows > 0 && n_rows <= options_.max_rows && n_outputs <= options_.max_outputs);
  return {};
}

void Runner::add_rows(const RunInput& input) {
  const uint32_t sequence = uint32_t(views_.size());
  views_.push_back(input.sequence->view());
  const size_t n = input.tokens.size();
  for (size_t i = 0; i < n; ++i) {
    const uint32_t cell = input.sequence->length() + uint32_t(i);
    rows_.push_back({.token = input.tokens[i],
                     .cell = cell,
                     .position = cell,
                     .last_visible = cell,
                     .sequence = sequence,
                     .wants_output = i + input.n_outputs >= n});
  }
}

std::span<const float> Runner::logits(uint32_t i) const {
  return executable_->logits().subspan(size_t(i) * vocab_size(), vocab_size());
}

uint64_t kv_bytes(const StateSpec& state, KvType type, uint64_t cells) {
  uint64_t elements = 0;
  for (const StateSpec::KvLayer& layer : state.kv_layers)
    elements += uint64_t(2) * layer.n_kv_heads * layer.head_dim;
  return elements * (type == KvType::f16 ? 2 : 4) * cells;
}

}  // namespace cera
