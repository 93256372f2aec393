// Any bytes: they are refused, or they are a model, and then two tokens run through it on the
// scalar CPU.

#include <cstdint>

#include "backends/cpu/cpu_backend.h"
#include "base/assert.h"
#include "models/model.h"

namespace {

using namespace cera;

/// Keeps one input to about a millisecond: products in all matrices together.
constexpr uint64_t kMostWork = 1 << 20;

uint64_t work_of(const Plan& plan) {
  uint64_t work = 0;
  for (const Op& op : plan.ops) {
    if (const auto* linear = std::get_if<LinearOp>(&op))
      for (const Weight& weight : linear->weights) work += uint64_t(weight.n_rows) * weight.n_cols;
    if (const auto* glu = std::get_if<LinearGluOp>(&op))
      work += 2 * uint64_t(glu->gate.n_rows) * glu->gate.n_cols;
  }
  return work;
}

void run_two_tokens(const Plan& plan) {
  static const std::unique_ptr<Backend> backend = make_cpu_backend({CpuTier::scalar, 1});
  const auto executable = backend->prepare(plan, {.max_rows = 2, .max_outputs = 2});
  if (!executable) return;
  const auto state = backend->make_state(plan.state, {.n_pages = 1, .n_slots = 1});
  if (!state) return;
  const uint32_t pages[] = {0};
  const SequenceView sequences[] = {{0, pages}};
  const Row rows[] = {{.token = 0, .wants_output = true},
                      {.token = int32_t(plan.vocab_size - 1),
                       .cell = 1,
                       .position = 1,
                       .last_visible = 1,
                       .wants_output = true}};
  const auto done = (*executable)->submit({rows, sequences}, **state);
  if (done) CERA_ASSERT((*executable)->logits().size() == 2 * size_t(plan.vocab_size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = gguf::File::from_bytes(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  const auto model = Model::load(*file);
  if (!model) {
    CERA_ASSERT(!model.error().message.empty());
    return 0;
  }
  if (work_of((*model)->plan()) <= kMostWork) run_two_tokens((*model)->plan());
  return 0;
}
