// Attention over the paged cache, span by span. The rows of a step are cut into blocks of adjacent
// rows of one sequence; the query vectors of a block that share a kv head are worked on together,
// so that each page is read once for all of them. A decode row is a block of one row. When there
// are fewer blocks than threads can use, the spans of a block become tasks too, and a second pass
// merges them in order.

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/lowered_op.h"
#include "base/checked.h"

namespace cera::cpu {
namespace {

constexpr uint32_t kBlockQueries = 96;  // query vectors of a block, unless one row has more
constexpr uint32_t kTasksPerThread = 4;
constexpr uint32_t kSplitRows = 8;    // the most rows whose spans are worked on apart
constexpr uint32_t kSplitSpans = 16;  // spans in flight then

struct Block {
  uint32_t first_row, n_rows;
  uint32_t n_spans;
};

/// What one worker needs for the query vectors of a block.
struct Workspace {
  float* q;           // [queries, head_dim]
  float* o;           // [queries, head_dim] of the current span
  float* s;           // [queries, kSpanCells] scores, then weights
  SoftmaxSum* span;   // [queries]
  SoftmaxSum* total;  // [queries]
  uint32_t* n_cells;  // [queries] visible in the current span
};

class LoweredAttention final : public LoweredOp {
 public:
  LoweredAttention(const AttentionOp& op, const LowerContext& context)
      : op_(op),
        kernels_{&attention_kernels(context.tier, KvType::f16, op.head_dim),
                 &attention_kernels(context.tier, KvType::f32, op.head_dim)},
        n_threads_(context.n_threads),
        group_(op.n_heads / op.n_kv_heads),
        max_queries_(std::max(kBlockQueries, group_)),
        split_rows_(std::min(kSplitRows, context.max_rows)) {
    blocks_.reserve(context.max_rows);
  }

  size_t scratch_bytes() const override {
    // Per split row and head: the partials of the spans in flight, and the running total.
    const size_t split_floats = kSplitSpans * partial_floats() + 2;
    return n_threads_ * worker_bytes() +
           size_t(split_rows_) * op_.n_heads * split_floats * sizeof(float);
  }

  std::string kernel_name() const override { return kernels_[0]->name; }

  void run(const RunContext& context) override {
    cut_blocks(context);
    uint32_t n_spans = 0;
    for (const Block& block : blocks_) n_spans = std::max(n_spans, block.n_spans);
    const uint32_t n_tasks = uint32_t(blocks_.size()) * op_.n_kv_heads;
    const bool split = n_threads_ > 1 && n_tasks < kTasksPerThread * n_threads_ && n_spans > 1 &&
                       context.n_rows <= split_rows_;
    if (split) {
      run_split(context, n_spans);
    } else {
      // Later blocks of a sequence see more cells: the longest tasks go first.
      context.pool.run(n_tasks, [&](uint32_t task, uint32_t worker) {
        const uint32_t last = n_tasks - 1 - task;
        run_block(context, blocks_[last / op_.n_kv_heads], last % op_.n_kv_heads, worker);
      });
    }
  }

 private:
  uint32_t n_queries(const Block& block) const { return block.n_rows * group_; }
  const AttentionKernels& kernels(const RunContext& context) const {
    return *kernels_[int(context.state.kv_type())];
  }

  void cut_blocks(const RunContext& context) {
    const std::span<const Row> rows = context.step.rows;
    const uint32_t fair = div_up(context.n_rows * op_.n_kv_heads, kTasksPerThread * n_threads_);
    const uint32_t most = std::clamp(fair, 1u, std::max(1u, kBlockQueries / group_));
    blocks_.clear();
    for (uint32_t i = 0; i < rows.size(); ++i) {
      const bool joins = !blocks_.empty() && blocks_.back().n_rows < most &&
                         rows[blocks_.back().first_row].sequence == rows[i].sequence;
      if (!joins) blocks_.push_back({i, 0, 0});
      Block& block = blocks_.back();
      ++block.n_rows;
      block.n_spans = std::max(block.n_spans, rows[i].last_visible / kSpanCells + 1);
    }
  }

  // ---- One block and kv head, all spans ----

  void run_block(const RunContext& context, const Block& block, uint32_t kv_head,
                 uint32_t worker) const {
    const AttentionKernels& kernels = this->kernels(context);
    const Workspace w = workspace(context, worker);
    load_queries(context, block, kv_head, w);
    const uint32_t n = n_queries(block);
    const uint32_t dim = op_.head_dim;
    for (uint32_t span = 0; span < block.n_spans; ++span) {
      run_span(context, block, kv_head, span, w);
      for (uint32_t i = 0; i < n; ++i) {
        float* out = output(context, block.first_row + i / group_, head(kv_head, i));
        const float* o = w.o + size_t(i) * dim;
        if (span == 0) {
          w.total[i] = w.span[i];
          std::memcpy(out, o, dim * sizeof(float));
        } else if (w.n_cells[i] != 0) {
          kernels.merge(&w.total[i], w.span[i], out, o, dim);
        }
      }
    }
    for (uint32_t i = 0; i < n; ++i) {
      divide(output(context, block.first_row + i / group_, head(kv_head, i)), w.total[i].l);
    }
  }

  /// Query vectors are ordered by row, then by head of the group.
  uint32_t head(uint32_t kv_head, uint32_t query) const {
    return kv_head * group_ + query % group_;
  }

  float* output(const RunContext& context, uint32_t row, uint32_t head) const {
    return context.buffers[op_.out] + (size_t(row) * op_.n_heads + head) * op_.head_dim;
  }

  void divide(float* out, float l) const {
    for (uint32_t d = 0; d < op_.head_dim; ++d) out[d] /= l;
  }

  void load_queries(const RunContext& context, const Block& block, uint32_t kv_head,
                    const Workspace& w) const {
    const size_t width = (op_.n_heads + 2 * size_t(op_.n_kv_heads)) * op_.head_dim;
    const size_t part = size_t(group_) * op_.head_dim;  // of one row: its heads are adjacent
    for (uint32_t row = 0; row < block.n_rows; ++row) {
      const float* from = context.buffers[op_.qkv] + (block.first_row + row) * width;
      std::memcpy(w.q + row * part, from + kv_head * part, part * sizeof(float));
    }
  }

  // ---- One span ----

  /// Fills w.n_cells, and for every query that sees cells of the span w.span and w.o.
  void run_span(const RunContext& context, const Block& block, uint32_t kv_head, uint32_t span,
                const Workspace& w) const {
    const AttentionKernels& kernels = this->kernels(context);
    const std::span<const Row> rows = context.step.rows;
    const SequenceView& sequence = context.step.sequences[rows[block.first_row].sequence];
    const uint32_t n = n_queries(block);
    const uint32_t tile_rows = div_up(n, div_up(n, kQueryTile));  // 7 queries: 4 and 3
    const uint32_t first_cell = span * kSpanCells;
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t visible = rows[block.first_row + i / group_].last_visible + 1;
      w.n_cells[i] = visible <= first_cell ? 0 : std::min(kSpanCells, visible - first_cell);
      most = std::max(most, w.n_cells[i]);
    }
    const uint32_t* pages = sequence.pages.data() + first_cell / kPageCells;
    const auto k_page = [&](uint32_t first) {
      return context.state.k(op_.kv_layer, pages[first / kPageCells], kv_head);
    };
    const auto v_page = [&](uint32_t first) {
      return context.state.v(op_.kv_layer, pages[first / kPageCells], kv_head);
    };
    for (uint32_t first = 0; first < most; first += kPageCells) {
      const std::byte* k = k_page(first);
      const std::byte* next = first + kPageCells < most ? k_page(first + kPageCells) : v_page(0);
      for (uint32_t tile = 0; tile < n; tile += tile_rows) {
        const uint32_t end = std::min(n, tile + tile_rows);
        uint32_t cells = 0;
        for (uint32_t i = tile; i < end; ++i) cells = std::max(cells, cells_in_page(w, i, first));
        if (cells == 0) continue;
        kernels.scores(w.q + size_t(tile) * op_.head_dim, end - tile, op_.head_dim, op_.scale, k,
                       next, cells, w.s + size_t(tile) * kSpanCells + first);
      }
    }
    for (uint32_t i = 0; i < n; ++i) {
      if (w.n_cells[i]) w.span[i] = kernels.softmax(w.s + size_t(i) * kSpanCells, w.n_cells[i]);
    }
    std::fill_n(w.o, size_t(n) * op_.head_dim, 0.0f);
    for (uint32_t first = 0; first < most; first += kPageCells) {
      const std::byte* v = v_page(first);
      const uint32_t after = first + kPageCells;
      const std::byte* next = after < most               ? v_page(after)
                              : span + 1 < block.n_spans ? k_page(after)
                                                         : v;
      for (uint32_t tile = 0; tile < n; tile += tile_rows) {
        weigh_tile(context, w, tile, std::min(n, tile + tile_rows), first, v, next);
      }
    }
  }

  /// Visible cells of the page that starts at cell `first` of the span.
  static uint32_t cells_in_page(const Workspace& w, uint32_t query, uint32_t first) {
    return w.n_cells[query] <= first ? 0 : std::min(kPageCells, w.n_cells[query] - first);
  }

  /// Cells that a query does not see are never multiplied, not even by 0: they may hold NaN.
  void weigh_tile(const RunContext& context, const Workspace& w, uint32_t tile, uint32_t end,
                  uint32_t first, const std::byte* v, const std::byte* next) const {
    const auto weigh = [&](uint32_t query, uint32_t n, uint32_t cell, uint32_t n_cells) {
      const size_t row_bytes = op_.head_dim * context.state.element_bytes();
      kernels(context).weigh(w.s + size_t(query) * kSpanCells + first + cell, n,
                             v + cell * row_bytes, next + cell * row_bytes, n_cells, op_.head_dim,
                             w.o + size_t(query) * op_.head_dim);
    };
    uint32_t common = kPageCells;
    for (uint32_t i = tile; i < end; ++i) common = std::min(common, cells_in_page(w, i, first));
    if (common > 0) weigh(tile, end - tile, 0, common);
    for (uint32_t i = tile, stop; i < end; i = stop) {
      const uint32_t cells = cells_in_page(w, i, first);
      stop = i + 1;
      while (stop < end && cells_in_page(w, stop, first) == cells) ++stop;
      if (cells > common) weigh(i, stop - i, common, cells - common);
    }
  }

  // ---- Spans as tasks ----

  size_t partial_floats() const { return op_.head_dim + 2; }  // m, l, o

  float* partial(const RunContext& context, uint32_t slot, uint32_t row, uint32_t head) const {
    float* first = reinterpret_cast<float*>(context.scratch + n_threads_ * worker_bytes());
    return first + ((size_t(slot) * split_rows_ + row) * op_.n_heads + head) * partial_floats();
  }
  SoftmaxSum& split_total(const RunContext& context, uint32_t row, uint32_t head) const {
    auto* totals = reinterpret_cast<SoftmaxSum*>(partial(context, kSplitSpans, 0, 0));
    return totals[size_t(row) * op_.n_heads + head];
  }

  void run_split(const RunContext& context, uint32_t n_spans) const {
    for (uint32_t first = 0; first < n_spans; first += kSplitSpans) {
      const uint32_t n = std::min(kSplitSpans, n_spans - first);
      const uint32_t n_units = uint32_t(blocks_.size()) * op_.n_kv_heads;
      context.pool.run(n * n_units, [&](uint32_t task, uint32_t worker) {
        const uint32_t unit = task % n_units;
        run_partial(context, blocks_[unit / op_.n_kv_heads], unit % op_.n_kv_heads, first,
                    task / n_units, worker);
      });
      context.pool.run(context.n_rows * op_.n_heads, [&](uint32_t task, uint32_t) {
        merge_partials(context, task / op_.n_heads, task % op_.n_heads, first, n);
      });
    }
  }

  void run_partial(const RunContext& context, const Block& block, uint32_t kv_head, uint32_t first,
                   uint32_t slot, uint32_t worker) const {
    if (first + slot >= block.n_spans) return;
    const Workspace w = workspace(context, worker);
    load_queries(context, block, kv_head, w);
    run_span(context, block, kv_head, first + slot, w);
    for (uint32_t i = 0; i < n_queries(block); ++i) {
      if (w.n_cells[i] == 0) continue;
      float* to = partial(context, slot, block.first_row + i / group_, head(kv_head, i));
      to[0] = w.span[i].m;
      to[1] = w.span[i].l;
      std::memcpy(to + 2, w.o + size_t(i) * op_.head_dim, op_.head_dim * sizeof(float));
    }
  }

  /// Merges spans [first, first + n) of one row and head into its output.
  void merge_partials(const RunContext& context, uint32_t row, uint32_t head, uint32_t first,
                      uint32_t n) const {
    const uint32_t n_spans = context.step.rows[row].last_visible / kSpanCells + 1;
    SoftmaxSum& total = split_total(context, row, head);
    float* out = output(context, row, head);
    for (uint32_t span = first; span < std::min(n_spans, first + n); ++span) {
      const float* from = partial(context, span - first, row, head);
      const SoftmaxSum sum = {from[0], from[1]};
      if (span == 0) {
        total = sum;
        std::memcpy(out, from + 2, op_.head_dim * sizeof(float));
      } else {
        kernels(context).merge(&total, sum, out, from + 2, op_.head_dim);
      }
    }
    if (first < n_spans && n_spans <= first + n) divide(out, total.l);
  }

  // ---- Scratch ----

  size_t worker_bytes() const {
    const size_t per_query =
        (2 * size_t(op_.head_dim) + kSpanCells + 5) * sizeof(float);  // q, o, s, two sums, n_cells
    return round_up(max_queries_ * per_query, size_t{64});
  }

  Workspace workspace(const RunContext& context, uint32_t worker) const {
    float* p = reinterpret_cast<float*>(context.scratch + worker * worker_bytes());
    const auto take = [&](size_t per_query) {
      float* taken = p;
      p += per_query * max_queries_;
      return taken;
    };
    Workspace w;
    w.s = take(kSpanCells);
    w.q = take(op_.head_dim);
    w.o = take(op_.head_dim);
    w.span = reinterpret_cast<SoftmaxSum*>(take(2));
    w.total = reinterpret_cast<SoftmaxSum*>(take(2));
    w.n_cells = reinterpret_cast<uint32_t*>(take(1));
    return w;
  }

  const AttentionOp& op_;
  const AttentionKernels* kernels_[2];  // by KvType
  uint32_t n_threads_;
  uint32_t group_;  // query heads of a kv head
  uint32_t max_queries_;
  uint32_t split_rows_;
  std::vector<Block> blocks_;
};

}  // namespace

Lowered lower_attention(const AttentionOp& op, const LowerContext& context) {
  return std::make_unique<LoweredAttention>(op, context);
}

}  // namespace cera::cpu
