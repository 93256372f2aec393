#include "backends/cpu/cpu_backend.h"

#include <fmt/format.h>

#include "backends/cpu/executable.h"

namespace cera {
namespace {

/// Whether the weight's type can be run; `op` for the message.
Result<void> check_weight(const Weight& weight, const char* op) {
  if (find_type(uint32_t(weight.type)) != nullptr) return {};
  return fail(ErrorCode::unsupported, op, "{} has type {}, which this build cannot run",
              weight.name, gguf_type_name(uint32_t(weight.type)));
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuBackendOptions& options)
      : tier_(options.tier), pool_(std::make_shared<ThreadPool>(options.n_threads)) {}

  std::string name() const override {
    return fmt::format("cpu ({}, {} thread{})", tier_name(tier_), pool_->size(),
                       pool_->size() == 1 ? "" : "s");
  }

  Result<void> supports(const Op& op) const override {
    if (const auto* embed = std::get_if<EmbedOp>(&op)) return check_weight(embed->table, "embed");
    if (const auto* linear = std::get_if<LinearOp>(&op)) {
      for (const Weight& weight : linear->weights) CERA_CHECK(check_weight(weight, "linear"));
    }
    if (const auto* glu = std::get_if<LinearGluOp>(&op)) {
      CERA_CHECK(check_weight(glu->gate, "linear_glu"));
      CERA_CHECK(check_weight(glu->up, "linear_glu"));
    }
    return {};
  }

  Result<std::unique_ptr<Executable>> prepare(const Plan& plan,
                                              const ExecutableOptions& options) override {
    for (size_t i = 0; i < plan.ops.size(); ++i) {
      auto supported = supports(plan.ops[i]);
      if (supported) continue;
      Error error = std::move(supported).error();
      if (plan.layer_of_op[i] >= 0) {
        error.where = fmt::format("layer {} {}", plan.layer_of_op[i], error.where);
      }
      return std::unexpected(std::move(error));
    }
    return cpu::CpuExecutable::make(plan, options, tier_, pool_);
  }

  Result<std::unique_ptr<StateMemory>> make_state(const StateSpec& spec,
                                                  const StateSize& size) override {
    CERA_TRY(std::unique_ptr<StateMemory> state, cpu::CpuState::make(spec, size));
    return state;
  }

 private:
  CpuTier tier_;
  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace cera
