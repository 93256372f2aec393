// Norms and rotates q and k in place, then writes k and v to the cache. A task is a range of rows.

#include "ops/rope_store.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/lowered_op.h"
#include "backends/cpu/rope_store_kernels.h"
#include "base/assert.h"
#include "base/checked.h"

namespace cera::cpu {
namespace {

constexpr uint32_t kRows = 16;  // of one task

void scalar_store_f16(const float* from, uint32_t n, std::byte* to, size_t stride) {
  auto* out = reinterpret_cast<uint16_t*>(to);
  for (uint32_t i = 0; i < n; ++i) out[i * stride] = ops::store_f16(from[i]);
}

void scalar_store_f32(const float* from, uint32_t n, std::byte* to, size_t stride) {
  auto* out = reinterpret_cast<float*>(to);
  for (uint32_t i = 0; i < n; ++i) out[i * stride] = from[i];
}

constexpr RopeStoreKernels kScalar = {
    ops::rotate_head, {scalar_store_f16, scalar_store_f32}, "scalar"};
static_assert(int(KvType::f16) == 0 && int(KvType::f32) == 1);

const RopeStoreKernels& rope_store_kernels(CpuTier tier) {
  const RopeStoreKernels* kernels = tier >= CpuTier::avx2 ? avx2::rope_store_kernels() : &kScalar;
  CERA_ASSERT(kernels != nullptr);
  return *kernels;
}

class LoweredRopeStore final : public LoweredOp {
 public:
  LoweredRopeStore(const RopeStoreOp& op, const LowerContext& context)
      : op_(op),
        rope_(context.plan.ropes[op.rope]),
        kernels_(rope_store_kernels(context.tier)),
        elementwise_(elementwise_kernels(context.tier)) {}

  void run(const RunContext& context) override {
    context.pool.run(div_up(context.n_rows, kRows), [&](uint32_t task, uint32_t) {
      const uint32_t end = std::min(context.n_rows, (task + 1) * kRows);
      for (uint32_t row = task * kRows; row < end; ++row) run_row(context, row);
    });
  }

  std::string kernel_name() const override { return kernels_.name; }

 private:
  void run_row(const RunContext& context, uint32_t row) const {
    const size_t width = (op_.n_heads + 2 * size_t(op_.n_kv_heads)) * op_.head_dim;
    float* q = context.buffers[op_.qkv] + row * width;
    float* k = q + size_t(op_.n_heads) * op_.head_dim;
    const float* v = k + size_t(op_.n_kv_heads) * op_.head_dim;
    norm(op_.q_norm, op_.n_heads, q);
    norm(op_.k_norm, op_.n_kv_heads, k);
    const size_t angles = size_t(row) * (rope_.n_dims / 2);
    const float* cosines = context.rope_cos[op_.rope] + angles;
    const float* sines = context.rope_sin[op_.rope] + angles;
    if (rope_.pairs != RopePairs::none) {
      for (uint32_t h = 0; h < op_.n_heads + op_.n_kv_heads; ++h) {
        kernels_.rotate(q + size_t(h) * op_.head_dim, rope_, cosines, sines);
      }
    }
    const Row& r = context.step.rows[row];
    const uint32_t page = context.step.sequences[r.sequence].pages[r.cell / kPageCells];
    const uint32_t cell = r.cell % kPageCells;
    const size_t element = context.state.element_bytes();
    const auto store = kernels_.store[int(context.state.kv_type())];
    for (uint32_t h = 0; h < op_.n_kv_heads; ++h) {
      const size_t head = size_t(h) * op_.head_dim;
      std::byte* k_page = context.state.k(op_.kv_layer, page, h);
      std::byte* v_page = context.state.v(op_.kv_layer, page, h);
      store(k + head, op_.head_dim, k_page + cell * element, kPageCells);
      store(v + head, op_.head_dim, v_page + size_t(cell) * op_.head_dim * element, 1);
    }
  }

  void norm(const NormSpec& norm, uint32_t n_heads, float* x) const {
    if (!norm) return;
    const uint32_t width = uint32_t(norm.gain.size());  // one head, or all of them
    for (uint32_t i = 0; i < n_heads * op_.head_dim; i += width) {
      elementwise_.rms_norm(x + i, norm.gain.data(), norm.eps, x + i, width);
    }
  }

  const RopeStoreOp& op_;
  const RopeSpec& rope_;
  const RopeStoreKernels& kernels_;
  const ElementwiseKernels& elementwise_;
};

}  // namespace

Lowered lower_rope_store(const RopeStoreOp& op, const LowerContext& context) {
  return std::make_unique<LoweredRopeStore>(op, context);
}

}  // namespace cera::cpu
