#pragma once
// How an op of the plan becomes work for the thread pool. Each op has one file here (embed.cpp,
// linear.cpp,
// ...) whose lower_* function checks support, picks the kernels of the tier and returns a
// LoweredOp.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/cpu/cpu_state.h"
#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace cera::cpu {

/// What a lowered op may touch while it runs.
struct RunContext {
  ThreadPool& pool;
  const Step& step;
  CpuState& state;
  float* const* buffers;         // by BufferId; rows of `width` floats
  uint32_t n_rows;               // step.rows.size()
  uint32_t n_outputs;            // rows that want output
  const uint32_t* output_rows;   // [n_outputs] their indices
  const float* const* rope_cos;  // by rope index: [n_rows, n_dims / 2], already times magnitude
  const float* const* rope_sin;
  std::byte* scratch;  // the largest scratch_bytes of all ops, 64-byte aligned, shared in turn
};

struct LowerContext {
  const Plan& plan;
  CpuTier tier;
  uint32_t n_threads;
  uint32_t max_rows;
  uint32_t max_outputs;
  /// The most rows a buffer can have in one step.
  uint32_t max_rows_of(BufferId id) const {
    return plan.buffers[id].rows == RowSet::step ? max_rows : max_outputs;
  }
};

class LoweredOp {
 public:
  virtual ~LoweredOp() = default;
  virtual size_t scratch_bytes() const { return 0; }
  /// No allocation, no exceptions.
  virtual void run(const RunContext& context) = 0;
  virtual std::string kernel_name() const = 0;
};

using Lowered = Result<std::unique_ptr<LoweredOp>>;

Lowered lower_embed(const EmbedOp& op, const LowerContext& context);
Lowered lower_linear(const LinearOp& op, const LowerContext& context);
Lowered lower_linear_glu(const LinearGluOp& op, const LowerContext& context);
Lowered lower_rope_store(const RopeStoreOp& op, const LowerContext& context);
Lowered lower_attention(const AttentionOp& op, const LowerContext& context);
Lowered lower_short_conv(const ShortConvOp& op, const LowerContext& context);
Lowered lower_take_rows(const TakeRowsOp& op, const LowerContext& context);

}  // namespace cera::cpu
