// The rows that go on to the head.

#include <cstring>

#include "backends/cpu/lowered_op.h"

namespace cera::cpu {
namespace {

class LoweredTakeRows final : public LoweredOp {
 public:
  LoweredTakeRows(const TakeRowsOp& op, uint32_t width) : op_(op), width_(width) {}

  void run(const RunContext& context) override {
    const float* in = context.buffers[op_.in];
    float* out = context.buffers[op_.out];
    for (uint32_t i = 0; i < context.n_outputs; ++i) {
      std::memcpy(out + size_t(i) * width_, in + size_t(context.output_rows[i]) * width_,
                  width_ * sizeof(float));
    }
  }

  std::string kernel_name() const override { return "copy"; }

 private:
  const TakeRowsOp& op_;
  uint32_t width_;
};

}  // namespace

Lowered lower_take_rows(const TakeRowsOp& op, const LowerContext& context) {
  return std::make_unique<LoweredTakeRows>(op, context.plan.buffers[op.in].width);
}

}  // namespace cera::cpu
