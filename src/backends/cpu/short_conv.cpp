// The gated short convolution. A task is a range of channels: it walks all rows of the step, so
// that every column of the state is read before it is written.

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/lowered_op.h"
#include "backends/cpu/short_conv_kernels.h"
#include "base/assert.h"
#include "base/checked.h"

namespace cera::cpu {
namespace {

constexpr uint32_t kChannels = 128;  // of one task
constexpr uint32_t kMaxTaps = 64;

void scalar_conv_row(const ConvRow& row, uint32_t n) {
  for (uint32_t c = 0; c < n; ++c) {
    float y = 0;
    for (uint32_t j = 0; j < row.taps; ++j) {
      const float u = row.x[j] ? row.b[j][c] * row.x[j][c] : row.b[j][c];
      y = std::fma(row.kernel[size_t(j) * row.width + c], u, y);
    }
    row.out[c] = row.gate[c] * y;
  }
}

constexpr ShortConvKernels kScalar = {scalar_conv_row, "scalar"};

class LoweredShortConv final : public LoweredOp {
 public:
  LoweredShortConv(const ShortConvOp& op, uint32_t width, const ShortConvKernels& kernels)
      : op_(op), width_(width), kernels_(kernels), kernel_(size_t(width) * op.taps), zeros_(width) {
    for (uint32_t c = 0; c < width; ++c) {
      for (uint32_t j = 0; j < op.taps; ++j) {
        kernel_[size_t(j) * width + c] = op.kernel[size_t(c) * op.taps + j];
      }
    }
  }

  void run(const RunContext& context) override {
    context.pool.run(div_up(width_, kChannels), [&](uint32_t task, uint32_t) {
      const uint32_t first = task * kChannels;
      const uint32_t n = std::min(kChannels, width_ - first);
      const std::span<const Row> rows = context.step.rows;
      for (uint32_t begin = 0, end; begin < rows.size(); begin = end) {
        end = begin + 1;
        while (end < rows.size() && rows[end].sequence == rows[begin].sequence) ++end;
        run_sequence(context, begin, end, first, n);
      }
    });
  }

  std::string kernel_name() const override { return kernels_.name; }

 private:
  /// Channels [first, first + n) of the rows [begin, end) of one sequence.
  void run_sequence(const RunContext& context, uint32_t begin, uint32_t end, uint32_t first,
                    uint32_t n) const {
    const std::span<const Row> rows = context.step.rows;
    const uint32_t slot = context.step.sequences[rows[begin].sequence].slot;
    const float* bcx = context.buffers[op_.bcx];
    const auto channel = [&](uint32_t row, uint32_t part) {
      return bcx + (size_t(row) * 3 + part) * width_ + first;
    };
    const auto state_column = [&](uint32_t cell) {
      return context.state.conv_column(op_.conv_layer, slot, cell) + first;
    };
    const float* b[kMaxTaps];
    const float* x[kMaxTaps];
    for (uint32_t t = begin; t < end; ++t) {
      for (uint32_t j = 0; j < op_.taps; ++j) {
        const uint32_t back = op_.taps - 1 - j;
        if (back <= t - begin) {
          b[j] = channel(t - back, 0);
          x[j] = channel(t - back, 2);
        } else {
          b[j] = back <= rows[t].cell ? state_column(rows[t].cell - back) : zeros_.data();
          x[j] = nullptr;
        }
      }
      kernels_.row({.b = b,
                    .x = x,
                    .kernel = kernel_.data() + first,
                    .gate = channel(t, 1),
                    .out = context.buffers[op_.out] + size_t(t) * width_ + first,
                    .width = width_,
                    .taps = op_.taps},
                   n);
    }
    const uint32_t ring = context.state.conv_ring(op_.conv_layer);
    for (uint32_t t = end - begin > ring ? end - ring : begin; t < end; ++t) {
      float* column = state_column(rows[t].cell);
      for (uint32_t c = 0; c < n; ++c) column[c] = channel(t, 0)[c] * channel(t, 2)[c];
    }
  }

  const ShortConvOp& op_;
  uint32_t width_;
  const ShortConvKernels& kernels_;
  std::vector<float> kernel_;  // [taps][width]
  std::vector<float> zeros_;   // columns before cell 0
};

const ShortConvKernels& short_conv_kernels(CpuTier tier) {
  const ShortConvKernels* kernels = tier >= CpuTier::avx2 ? avx2::short_conv_kernels() : &kScalar;
  CERA_ASSERT(kernels != nullptr);
  return *kernels;
}

}  // namespace

Lowered lower_short_conv(const ShortConvOp& op, const LowerContext& context) {
  CERA_ASSERT(op.taps <= kMaxTaps);
  return std::make_unique<LoweredShortConv>(op, context.plan.buffers[op.out].width,
                                            short_conv_kernels(context.tier));
}

}  // namespace cera::cpu
