#include "backends/cpu/executable.h"

#include <algorithm>
#include <chrono>

#include "base/assert.h"
#include "base/checked.h"
#include "ops/buffer_uses.h"
#include "ops/rope_store.h"

namespace cera::cpu {
namespace {

constexpr uint32_t kMaxRows = 1 << 16;
constexpr uint32_t kRopeRows = 16;  // of one task

Lowered lower_op(const Op& op, const LowerContext& context) {
  struct Lower {
    const LowerContext& context;
    Lowered operator()(const EmbedOp& o) const { return lower_embed(o, context); }
    Lowered operator()(const LinearOp& o) const { return lower_linear(o, context); }
    Lowered operator()(const LinearGluOp& o) const { return lower_linear_glu(o, context); }
    Lowered operator()(const RopeStoreOp& o) const { return lower_rope_store(o, context); }
    Lowered operator()(const AttentionOp& o) const { return lower_attention(o, context); }
    Lowered operator()(const ShortConvOp& o) const { return lower_short_conv(o, context); }
    Lowered operator()(const TakeRowsOp& o) const { return lower_take_rows(o, context); }
  };
  return std::visit(Lower{context}, op);
}

/// "linear blk.3.ffn_down.weight Q6_K"
std::string profile_name(const Op& op) {
  std::string name = op_name(op);
  const auto add = [&](const Weight& w) {
    name += fmt::format(" {} {}", w.name, type_info(w.type).name);
  };
  if (const auto* embed = std::get_if<EmbedOp>(&op)) add(embed->table);
  if (const auto* linear = std::get_if<LinearOp>(&op)) {
    for (const Weight& w : linear->weights) add(w);
  }
  if (const auto* glu = std::get_if<LinearGluOp>(&op)) {
    add(glu->gate);
    add(glu->up);
  }
  return name;
}

std::string place(const Plan& plan, size_t i) {
  const int32_t layer = plan.layer_of_op[i];
  return layer < 0 ? op_name(plan.ops[i]) : fmt::format("layer {} {}", layer, op_name(plan.ops[i]));
}

}  // namespace

Result<std::unique_ptr<Executable>> CpuExecutable::make(const Plan& plan,
                                                        const ExecutableOptions& options,
                                                        CpuTier tier,
                                                        std::shared_ptr<ThreadPool> pool) {
  if (options.max_rows == 0 || options.max_rows > kMaxRows) {
    return fail(ErrorCode::invalid_argument, "max_rows", "{} rows in a step; 1 to {} are possible",
                options.max_rows, kMaxRows);
  }
  const ExecutableOptions useful = {options.max_rows,
                                    std::min(options.max_outputs, options.max_rows)};
  std::unique_ptr<CpuExecutable> made(new CpuExecutable(plan, useful, std::move(pool)));
  CERA_CHECK(made->lower(tier));
  CERA_CHECK(made->allocate());
  return made;
}

Result<void> CpuExecutable::lower(CpuTier tier) {
  const LowerContext context = {plan_, tier, pool_->size(), options_.max_rows,
                                options_.max_outputs};
  for (size_t i = 0; i < plan_.ops.size(); ++i) {
    auto lowered = lower_op(plan_.ops[i], context);
    if (!lowered) {
      Error error = std::move(lowered).error();
      error.where = place(plan_, i) + (error.where.empty() ? "" : ": " + error.where);
      return std::unexpected(std::move(error));
    }
    bool on_outputs = false;
    for_each_buffer(plan_.ops[i],
                    [&](BufferId id) { on_outputs |= plan_.buffers[id].rows == RowSet::outputs; });
    on_outputs_.push_back(on_outputs);
    profile_.push_back({profile_name(plan_.ops[i]), (*lowered)->kernel_name(), 0, 0});
    ops_.push_back(std::move(*lowered));
  }
  return {};
}

/// One block of memory for buffers, rope tables and scratch. The system commits it as it is
/// touched.
Result<void> CpuExecutable::allocate() {
  std::vector<size_t> offsets;
  std::optional<size_t> total = 0;
  const auto reserve = [&](std::optional<size_t> bytes) {
    offsets.push_back(total.value_or(0));
    if (bytes) bytes = checked_add(*bytes, kAlignment - 1);
    if (total && bytes) total = checked_add(*total, *bytes / kAlignment * kAlignment);
    if (!bytes) total = std::nullopt;
  };
  const auto floats = [](size_t rows, size_t width) {
    return checked_mul(rows, width * sizeof(float));  // width < 2^32
  };
  for (const Plan::Buffer& buffer : plan_.buffers) {
    const bool outputs = buffer.rows == RowSet::outputs;
    reserve(floats(outputs ? options_.max_outputs : options_.max_rows, buffer.width));
  }
  for (const RopeSpec& rope : plan_.ropes) {
    reserve(floats(options_.max_rows, rope.n_dims / 2));
    reserve(floats(options_.max_rows, rope.n_dims / 2));
  }
  size_t scratch = 0;
  for (const auto& op : ops_) scratch = std::max(scratch, op->scratch_bytes());
  reserve(scratch);
  if (!total) {
    return fail(ErrorCode::out_of_memory, "activations",
                "{} rows and {} outputs need more memory than can be addressed", options_.max_rows,
                options_.max_outputs);
  }
  bytes_ = *total;
  CERA_TRY(memory_, allocate_aligned(bytes_, "activations"));
  const auto at = [&](size_t i) { return memory_.get() + offsets[i]; };
  size_t next = 0;
  while (next < plan_.buffers.size()) buffers_.push_back(reinterpret_cast<float*>(at(next++)));
  for (size_t i = 0; i < plan_.ropes.size(); ++i) {
    rope_cos_.push_back(reinterpret_cast<float*>(at(next++)));
    rope_sin_.push_back(reinterpret_cast<float*>(at(next++)));
  }
  scratch_ = at(next);
  output_rows_.reserve(options_.max_outputs);
  return {};
}

/// Faults of the caller's input are errors; the rest of the contract of ops/step.h is asserted.
Result<void> CpuExecutable::check_rows(const Step& step) {
  if (step.rows.empty() || step.rows.size() > options_.max_rows) {
    return fail(ErrorCode::invalid_argument, "step", "{} rows; between 1 and {} fit",
                step.rows.size(), options_.max_rows);
  }
  output_rows_.clear();
  size_t n_outputs = 0;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const Row& row = step.rows[i];
    if (row.token < 0 || uint32_t(row.token) >= plan_.vocab_size) {
      return fail(ErrorCode::invalid_argument, fmt::format("row {}", i),
                  "token {} is not in the vocabulary of {}", row.token, plan_.vocab_size);
    }
    if (!row.wants_output) continue;
    if (++n_outputs <= options_.max_outputs) output_rows_.push_back(uint32_t(i));
  }
  if (n_outputs > options_.max_outputs) {
    return fail(ErrorCode::invalid_argument, "step", "{} rows want output; at most {} fit",
                n_outputs, options_.max_outputs);
  }
  return {};
}

namespace {

void assert_contract(const Step& step, const StateSize& size) {
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const Row& row = step.rows[i];
    CERA_ASSERT(row.sequence < step.sequences.size());
    CERA_ASSERT(row.last_visible >= row.cell);
    const SequenceView& sequence = step.sequences[row.sequence];
    CERA_ASSERT(row.last_visible / kPageCells < sequence.pages.size());
    const bool continues = i > 0 && step.rows[i - 1].sequence == row.sequence;
    CERA_ASSERT(!continues || step.rows[i - 1].cell + 1 == row.cell);
  }
  for (const SequenceView& sequence : step.sequences) {
    CERA_ASSERT(sequence.slot < size.n_slots);
    for (uint32_t page : sequence.pages) CERA_ASSERT(page < size.n_pages);
  }
}

}  // namespace

void CpuExecutable::compute_ropes(const Step& step) {
  const uint32_t n_rows = uint32_t(step.rows.size());
  for (size_t i = 0; i < plan_.ropes.size(); ++i) {
    const RopeSpec& rope = plan_.ropes[i];
    if (rope.pairs == RopePairs::none) continue;
    pool_->run(div_up(n_rows, kRopeRows), [&](uint32_t task, uint32_t) {
      const uint32_t end = std::min(n_rows, (task + 1) * kRopeRows);
      for (uint32_t row = task * kRopeRows; row < end; ++row) {
        const size_t offset = size_t(row) * (rope.n_dims / 2);
        ops::rope_angles(rope, step.rows[row].position, rope_cos_[i] + offset,
                         rope_sin_[i] + offset);
      }
    });
  }
}

void CpuExecutable::run_ops(const RunContext& context) {
  using Clock = std::chrono::steady_clock;
  auto before = profiling_ ? Clock::now() : Clock::time_point();
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (on_outputs_[i] && context.n_outputs == 0) continue;
    ops_[i]->run(context);
    if (!profiling_) continue;
    const auto after = Clock::now();
    profile_[i].nanoseconds +=
        uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count());
    ++profile_[i].calls;
    before = after;
  }
}

Result<void> CpuExecutable::submit(const Step& step, StateMemory& state) {
  CERA_CHECK(check_rows(step));
  auto* cpu_state = dynamic_cast<CpuState*>(&state);
  CERA_ASSERT(cpu_state != nullptr);
  assert_contract(step, state.size());
  compute_ropes(step);
  run_ops({.pool = *pool_,
           .step = step,
           .state = *cpu_state,
           .buffers = buffers_.data(),
           .n_rows = uint32_t(step.rows.size()),
           .n_outputs = uint32_t(output_rows_.size()),
           .output_rows = output_rows_.data(),
           .rope_cos = rope_cos_.data(),
           .rope_sin = rope_sin_.data(),
           .scratch = scratch_});
  return {};
}

std::span<const float> CpuExecutable::logits() const {
  return {buffers_[plan_.logits], output_rows_.size() * plan_.vocab_size};
}

}  // namespace cera::cpu
