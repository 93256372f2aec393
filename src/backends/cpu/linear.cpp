// linear and linear_glu: who does what, in which order, in which memory. The arithmetic is the
// tier's (linear_kernels.h).
//
// A run has two parallel phases. First the activation rows are normed, quantised and packed, once
// for each format that the weights ask for. Then tasks, each a range of weight rows, are multiplied
// with all of them.

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/linear_kernels.h"
#include "backends/cpu/lowered_op.h"
#include "base/assert.h"
#include "base/checked.h"

namespace cera::cpu {
namespace {

// A fork and join costs less than a microsecond; below this many bytes of weights times rows it
// does not pay.
constexpr size_t min_parallel_bytes = 16 << 10;
// Weight bytes of one task when they are read once: small enough to share evenly, long enough to
// stream.
constexpr size_t task_bytes = 32 << 10;
// Unpacked weights of one task, which should stay in the level 2 cache.
constexpr size_t panel_cache_bytes = 256 << 10;
constexpr uint32_t max_task_panels = 4;
constexpr uint32_t tasks_per_thread = 6;

const LinearKernels& kernels_of(CpuTier tier) {
  const LinearKernels* kernels = tier >= CpuTier::avx512 ? avx512::linear_kernels()
                                 : tier == CpuTier::avx2 ? avx2::linear_kernels()
                                                         : &scalar_linear_kernels();
  CERA_ASSERT(kernels != nullptr);
  return *kernels;
}

struct Part {
  Weight weight;
  ops::ActivationFormat format;
  const WeightKernels* kernels;
  size_t panel_bytes;
};

/// Matrices of equal height whose dot products are finished together: one, or gate and up.
struct Span {
  uint32_t first_part, n_rows;
  uint32_t column;    // of its first output
  const float* bias;  // may be nullptr
};

struct Task {
  const Span* span;
  uint32_t first_row, n_rows;
};

class LoweredLinear final : public LoweredOp {
 public:
  LoweredLinear(const LinearOp& op, const LowerContext& context);
  LoweredLinear(const LinearGluOp& op, const LowerContext& context);

  /// The first weight that the tier cannot run, or nullptr.
  const Weight* unsupported() const;
  void plan_scratch(const LowerContext& context);

  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string kernel_name() const override;
  void run(const RunContext& context) override;

 private:
  /// One run: the rows at hand and where everything lies.
  struct Job {
    const RunContext& context;
    const float* in;
    float* out;
    uint32_t n_rows, n_groups;
    bool grouped;
    bool parallel;
    uint32_t task_rows;  // weight rows of a task
    uint32_t n_row_tasks;
    uint32_t n_splits;  // of the activation rows
  };

  void add_part(const Weight& weight);
  Job make_job(const RunContext& context) const;
  uint32_t count_row_tasks(uint32_t task_rows) const;
  Task find_task(uint32_t index, uint32_t task_rows) const;
  std::byte* worker_scratch(const Job& job, uint32_t worker) const;
  std::byte* packed(const Job& job, ops::ActivationFormat format) const {
    return job.context.scratch + packed_at_[size_t(format)];
  }

  const float* normed(const float* row, float* to) const;
  void pack_rows(const Job& job, uint32_t first, uint32_t n, uint32_t worker) const;
  void pack_group(const Job& job, uint32_t group, uint32_t worker) const;
  void multiply_rows(const Job& job, const Task& task, uint32_t worker) const;
  void multiply_groups(const Job& job, const Task& task, uint32_t split, uint32_t worker) const;
  void finish(const Job& job, const Task& task, uint32_t row, const float* dots,
              size_t part_stride) const;

  const LinearKernels& kernels_;
  const ElementwiseKernels& elementwise_;
  BufferId in_, out_;
  RowSet row_set_;
  NormSpec norm_;
  Epilogue epilogue_;
  bool glu_;
  uint32_t n_cols_, out_width_ = 0;
  std::vector<Part> parts_;
  std::vector<Span> spans_;
  std::array<bool, kFormats> uses_format_{};

  uint32_t n_threads_;
  size_t weight_bytes_ = 0, max_row_bytes_ = 0;
  uint32_t max_single_rows_ = 0;  // activation rows that are not grouped
  uint32_t single_task_rows_ = 0, group_task_rows_ = 0;
  std::array<size_t, kFormats> packed_at_{}, row_stride_{}, group_stride_{};
  size_t worker_at_ = 0, worker_bytes_ = 0, dots_at_ = 0, dots_floats_ = 0, panels_at_ = 0;
  size_t scratch_bytes_ = 0;
};

LoweredLinear::LoweredLinear(const LinearOp& op, const LowerContext& context)
    : kernels_(kernels_of(context.tier)),
      elementwise_(elementwise_kernels(context.tier)),
      in_(op.in),
      out_(op.out),
      row_set_(context.plan.buffers[op.in].rows),
      norm_(op.norm),
      epilogue_{op.activation, op.scale, op.accumulate},
      glu_(false),
      n_cols_(op.weights.front().n_cols),
      n_threads_(context.n_threads) {
  CERA_ASSERT(op.in != op.out);
  for (size_t i = 0; i < op.weights.size(); ++i) {
    const bool has_bias = !op.biases.empty() && !op.biases[i].empty();
    spans_.push_back(
        {uint32_t(i), op.weights[i].n_rows, out_width_, has_bias ? op.biases[i].data() : nullptr});
    add_part(op.weights[i]);
    out_width_ += op.weights[i].n_rows;
  }
}

LoweredLinear::LoweredLinear(const LinearGluOp& op, const LowerContext& context)
    : kernels_(kernels_of(context.tier)),
      elementwise_(elementwise_kernels(context.tier)),
      in_(op.in),
      out_(op.out),
      row_set_(context.plan.buffers[op.in].rows),
      norm_(op.norm),
      epilogue_{op.activation, 1, false},
      glu_(true),
      n_cols_(op.gate.n_cols),
      out_width_(op.gate.n_rows),
      n_threads_(context.n_threads) {
  CERA_ASSERT(op.in != op.out);
  spans_.push_back({0, op.gate.n_rows, 0, nullptr});
  add_part(op.gate);
  add_part(op.up);
}

void LoweredLinear::add_part(const Weight& weight) {
  const auto format = ops::activation_format(weight.type);
  parts_.push_back({weight, format, kernels_.weights(weight.type), 0});
  uses_format_[size_t(format)] = true;
  weight_bytes_ += weight.n_rows * weight.row_bytes;
  max_row_bytes_ = std::max(max_row_bytes_, weight.row_bytes);
}

const Weight* LoweredLinear::unsupported() const {
  for (const Part& part : parts_)
    if (part.kernels == nullptr) return &part.weight;
  return nullptr;
}

// Scratch: packed activations by format, then for each worker its normed rows, dot products and
// panels.
void LoweredLinear::plan_scratch(const LowerContext& context) {
  const uint32_t max_rows = context.max_rows_of(in_);
  const uint32_t max_groups =
      max_rows >= kernels_.group_from_rows ? div_up(max_rows, kernels_.group_rows) : 0;
  max_single_rows_ = std::min(max_rows, kernels_.group_from_rows - 1);
  size_t at = 0;
  for (uint32_t f = 0; f < kFormats; ++f) {
    if (!uses_format_[f]) continue;
    const ActivationKernels& kernels = kernels_.activations(ops::ActivationFormat(f));
    packed_at_[f] = at;
    row_stride_[f] = kernels.row_bytes(n_cols_);
    if (max_groups > 0) group_stride_[f] = kernels.group_bytes(n_cols_);
    at += std::max(max_single_rows_ * row_stride_[f], max_groups * group_stride_[f]);
  }
  worker_at_ = at;

  const uint32_t n_rows = spans_.front().n_rows * uint32_t(glu_ ? 1 : spans_.size());
  const uint32_t share = div_up(n_rows, n_threads_ * tasks_per_thread);
  single_task_rows_ = round_up(std::min(share, uint32_t(task_bytes / max_row_bytes_)), 16u);
  if (single_task_rows_ == 0) single_task_rows_ = 16;
  size_t panel_bytes = 0;
  if (max_groups > 0) {
    for (Part& part : parts_) {
      part.panel_bytes = part.kernels->panel_bytes(n_cols_);
      panel_bytes = std::max(panel_bytes, part.panel_bytes);
    }
    const uint32_t cached = uint32_t(panel_cache_bytes / (panel_bytes * (glu_ ? 2 : 1)));
    const uint32_t even = div_up(share, kernels_.panel_rows);
    group_task_rows_ =
        std::clamp(std::min(cached, even), 1u, max_task_panels) * kernels_.panel_rows;
  }

  const size_t n_parts = glu_ ? 2 : 1;
  dots_at_ = norm_ ? round_up<size_t>(kernels_.group_rows * n_cols_ * sizeof(float), 64) : 0;
  dots_floats_ = std::max(size_t{max_single_rows_} * single_task_rows_,
                          size_t{kernels_.group_rows} * group_task_rows_);
  panels_at_ = round_up<size_t>(dots_at_ + n_parts * dots_floats_ * sizeof(float), 64);
  worker_bytes_ = panels_at_ + n_parts * (group_task_rows_ / kernels_.panel_rows) * panel_bytes;
  scratch_bytes_ = worker_at_ + n_threads_ * worker_bytes_;
}

std::string LoweredLinear::kernel_name() const {
  std::string types;
  for (const Part& part : parts_)
    types += (types.empty() ? "" : "+") + std::string(type_info(part.weight.type).name);
  return fmt::format("{} {} {}", kernels_.name, glu_ ? "linear_glu" : "linear", types);
}

uint32_t LoweredLinear::count_row_tasks(uint32_t task_rows) const {
  uint32_t n = 0;
  for (const Span& span : spans_) n += div_up(span.n_rows, task_rows);
  return n;
}

Task LoweredLinear::find_task(uint32_t index, uint32_t task_rows) const {
  const Span* span = spans_.data();
  for (uint32_t n; index >= (n = div_up(span->n_rows, task_rows)); ++span) index -= n;
  const uint32_t first = index * task_rows;
  return {span, first, std::min(task_rows, span->n_rows - first)};
}

LoweredLinear::Job LoweredLinear::make_job(const RunContext& context) const {
  const uint32_t n_rows = row_set_ == RowSet::step ? context.n_rows : context.n_outputs;
  const bool grouped = n_rows >= kernels_.group_from_rows;
  const uint32_t n_groups = div_up(n_rows, kernels_.group_rows);
  const uint32_t task_rows = grouped ? group_task_rows_ : single_task_rows_;
  const uint32_t n_row_tasks = count_row_tasks(task_rows);
  // A matrix too low for all threads is split along the activation rows as well.
  uint32_t n_splits = 1;
  if (grouped) n_splits = std::clamp(n_threads_ * 2 / n_row_tasks, 1u, std::max(1u, n_groups / 8));
  return {context,
          context.buffers[in_],
          context.buffers[out_],
          n_rows,
          n_groups,
          grouped,
          weight_bytes_ * n_rows >= min_parallel_bytes,
          task_rows,
          n_row_tasks,
          n_splits};
}

std::byte* LoweredLinear::worker_scratch(const Job& job, uint32_t worker) const {
  return job.context.scratch + worker_at_ + worker * worker_bytes_;
}

template <class Body>
void for_each_task(ThreadPool& pool, bool parallel, uint32_t n, Body&& body) {
  if (parallel) return pool.run(n, body);
  for (uint32_t i = 0; i < n; ++i) body(i, 0u);
}

void LoweredLinear::run(const RunContext& context) {
  const Job job = make_job(context);
  if (job.n_rows == 0) return;
  ThreadPool& pool = context.pool;
  if (job.grouped) {
    const bool parallel = size_t{job.n_rows} * n_cols_ * sizeof(float) >= 4 * min_parallel_bytes;
    for_each_task(pool, parallel, job.n_groups,
                  [&](uint32_t group, uint32_t worker) { pack_group(job, group, worker); });
    for_each_task(pool, job.parallel, job.n_row_tasks * job.n_splits,
                  [&](uint32_t i, uint32_t worker) {
                    const Task task = find_task(i / job.n_splits, job.task_rows);
                    multiply_groups(job, task, i % job.n_splits, worker);
                  });
  } else {
    const uint32_t chunk = div_up(job.n_rows, n_threads_);
    const bool parallel = job.n_rows >= 4;
    for_each_task(pool, parallel, div_up(job.n_rows, chunk), [&](uint32_t i, uint32_t worker) {
      pack_rows(job, i * chunk, std::min(chunk, job.n_rows - i * chunk), worker);
    });
    for_each_task(pool, job.parallel, job.n_row_tasks, [&](uint32_t i, uint32_t worker) {
      multiply_rows(job, find_task(i, job.task_rows), worker);
    });
  }
}

const float* LoweredLinear::normed(const float* row, float* to) const {
  if (!norm_) return row;
  elementwise_.rms_norm(row, norm_.gain.data(), norm_.eps, to, n_cols_);
  return to;
}

void LoweredLinear::pack_rows(const Job& job, uint32_t first, uint32_t n, uint32_t worker) const {
  float* const buffer = reinterpret_cast<float*>(worker_scratch(job, worker));
  for (uint32_t i = first; i < first + n; ++i) {
    const float* x = normed(job.in + size_t{i} * n_cols_, buffer);
    for (uint32_t f = 0; f < kFormats; ++f) {
      if (!uses_format_[f]) continue;
      const auto format = ops::ActivationFormat(f);
      kernels_.activations(format).pack_row(x, n_cols_, packed(job, format) + i * row_stride_[f]);
    }
  }
}

void LoweredLinear::pack_group(const Job& job, uint32_t group, uint32_t worker) const {
  float* const buffer = reinterpret_cast<float*>(worker_scratch(job, worker));
  const float* x[kMaxGroupRows] = {};
  const uint32_t first = group * kernels_.group_rows;
  for (uint32_t i = 0; i < kernels_.group_rows && first + i < job.n_rows; ++i) {
    const size_t row = first + i;
    x[i] = normed(job.in + row * n_cols_, buffer + size_t{i} * n_cols_);
  }
  for (uint32_t f = 0; f < kFormats; ++f) {
    if (!uses_format_[f]) continue;
    const auto format = ops::ActivationFormat(f);
    kernels_.activations(format).pack_group(x, n_cols_,
                                            packed(job, format) + group * group_stride_[f]);
  }
}

/// Dot products of part p lie at dots + p * part_stride.
void LoweredLinear::finish(const Job& job, const Task& task, uint32_t row, const float* dots,
                           size_t part_stride) const {
  const Span& span = *task.span;
  float* const out = job.out + size_t{row} * out_width_ + span.column + task.first_row;
  if (glu_)
    return kernels_.finish_glu(epilogue_.activation, dots, dots + part_stride, out, task.n_rows);
  const float* bias = span.bias != nullptr ? span.bias + task.first_row : nullptr;
  kernels_.finish(epilogue_, dots, bias, out, task.n_rows);
}

void LoweredLinear::multiply_rows(const Job& job, const Task& task, uint32_t worker) const {
  float* const dots = reinterpret_cast<float*>(worker_scratch(job, worker) + dots_at_);
  for (uint32_t p = 0; p < (glu_ ? 2u : 1u); ++p) {
    const Part& part = parts_[task.span->first_part + p];
    part.kernels->dot_rows(part.weight, task.first_row, task.n_rows, packed(job, part.format),
                           row_stride_[size_t(part.format)], job.n_rows, dots + p * dots_floats_,
                           job.task_rows);
  }
  for (uint32_t i = 0; i < job.n_rows; ++i)
    finish(job, task, i, dots + size_t{i} * job.task_rows, dots_floats_);
}

void LoweredLinear::multiply_groups(const Job& job, const Task& task, uint32_t split,
                                    uint32_t worker) const {
  std::byte* const scratch = worker_scratch(job, worker);
  float* const dots = reinterpret_cast<float*>(scratch + dots_at_);
  const uint32_t group_rows = kernels_.group_rows, panel_rows = kernels_.panel_rows;
  const uint32_t n_panels = div_up(task.n_rows, panel_rows), n_parts = glu_ ? 2 : 1;
  const Part* const parts = &parts_[task.span->first_part];
  std::byte* panels[2 * max_task_panels];
  std::byte* panel = scratch + panels_at_;
  for (uint32_t i = 0; i < n_parts * n_panels; ++i) {
    const Part& part = parts[i / n_panels];
    panels[i] = panel;
    part.kernels->unpack_panel(part.weight, task.first_row + i % n_panels * panel_rows, panel);
    panel += part.panel_bytes;
  }
  const uint32_t first = job.n_groups * split / job.n_splits;
  const uint32_t last = job.n_groups * (split + 1) / job.n_splits;
  for (uint32_t g = first; g < last; ++g) {
    for (uint32_t i = 0; i < n_parts * n_panels; ++i) {
      const Part& part = parts[i / n_panels];
      const std::byte* group = packed(job, part.format) + g * group_stride_[size_t(part.format)];
      float* to = dots + i / n_panels * dots_floats_ + i % n_panels * panel_rows;
      part.kernels->multiply(panels[i], group, n_cols_, to, job.task_rows);
    }
    const uint32_t n = std::min(group_rows, job.n_rows - g * group_rows);
    for (uint32_t i = 0; i < n; ++i)
      finish(job, task, g * group_rows + i, dots + size_t{i} * job.task_rows, dots_floats_);
  }
}

template <class LinearLike>
Lowered lower(const LinearLike& op, const LowerContext& context, const char* name) {
  auto lowered = std::make_unique<LoweredLinear>(op, context);
  if (const Weight* weight = lowered->unsupported())
    return fail(ErrorCode::unsupported, weight->name, "{}: no kernel for type {} in this tier",
                name, type_info(weight->type).name);
  lowered->plan_scratch(context);
  return lowered;
}

}  // namespace

Lowered lower_linear(const LinearOp& op, const LowerContext& context) {
  return lower(op, context, "linear");
}

Lowered lower_linear_glu(const LinearGluOp& op, const LowerContext& context) {
  return lower(op, context, "linear_glu");
}

}  // namespace cera::cpu
