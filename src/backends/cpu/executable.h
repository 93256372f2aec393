#pragma once
// A plan lowered for the CPU: one LoweredOp per op, the activation buffers, and scratch shared in
// turn.

#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/aligned_memory.h"
#include "backends/cpu/lowered_op.h"

namespace cera::cpu {

class CpuExecutable final : public Executable {
 public:
  /// The plan and the pool must outlive the executable.
  static Result<std::unique_ptr<Executable>> make(const Plan& plan,
                                                  const ExecutableOptions& options, CpuTier tier,
                                                  std::shared_ptr<ThreadPool> pool);

  Result<void> submit(const Step& step, StateMemory& state) override;
  std::span<const float> logits() const override;
  size_t bytes() const override { return bytes_; }
  std::vector<OpProfile> profile() const override { return profile_; }
  void set_profiling(bool on) override { profiling_ = on; }

 private:
  CpuExecutable(const Plan& plan, const ExecutableOptions& options,
                std::shared_ptr<ThreadPool> pool)
      : plan_(plan), options_(options), pool_(std::move(pool)) {}

  Result<void> lower(CpuTier tier);
  Result<void> allocate();
  Result<void> check_rows(const Step& step);
  void compute_ropes(const Step& step);
  void run_ops(const RunContext& context);

  const Plan& plan_;
  ExecutableOptions options_;
  std::shared_ptr<ThreadPool> pool_;
  std::vector<std::unique_ptr<LoweredOp>> ops_;
  std::vector<bool> on_outputs_;  // by op: works on the output rows only
  std::vector<OpProfile> profile_;
  bool profiling_ = false;

  AlignedMemory memory_;
  size_t bytes_ = 0;
  std::vector<float*> buffers_;              // by BufferId
  std::vector<float*> rope_cos_, rope_sin_;  // by rope index
  std::byte* scratch_ = nullptr;
  std::vector<uint32_t> output_rows_;
};

}  // namespace cera::cpu
