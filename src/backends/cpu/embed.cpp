// The rows of the embedding table that the step's tokens name.

#include "backends/cpu/lowered_op.h"

namespace cera::cpu {
namespace {

class LoweredEmbed final : public LoweredOp {
 public:
  explicit LoweredEmbed(const EmbedOp& op) : op_(op), unpack_(type_info(op.table.type).unpack) {}

  void run(const RunContext& context) override {
    float* out = context.buffers[op_.out];
    const uint32_t width = op_.table.n_cols;
    context.pool.run(context.n_rows, [&](uint32_t row, uint32_t) {
      float* y = out + size_t(row) * width;
      const size_t token = size_t(context.step.rows[row].token);
      unpack_(op_.table.data + token * op_.table.row_bytes, y, width);
      if (op_.scale == 1) return;
      for (uint32_t i = 0; i < width; ++i) y[i] *= op_.scale;
    });
  }

  std::string kernel_name() const override { return "scalar"; }

 private:
  const EmbedOp& op_;
  void (*unpack_)(const std::byte* from, float* to, size_t n);
};

}  // namespace

Lowered lower_embed(const EmbedOp& op, const LowerContext&) {
  return std::make_unique<LoweredEmbed>(op);
}

}  // namespace cera::cpu
