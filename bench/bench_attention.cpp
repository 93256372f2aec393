// Speed of attention and rope_store: GFLOPS of prefill (two operations per multiply-add, visible
// cells only), GB/s of keys and values in decode, against this machine's FMA and read roofs.
// Speeds are per second of processor time, so those of several threads are of one of them.
//
// usage: bench_attention [threads]

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "backends/cpu/aligned_memory.h"
#include "backends/cpu/lowered_op.h"
#include "base/checked.h"

namespace cera::cpu {
/// Processor time of all threads: on a shared machine the wall clock also counts the neighbours.
double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}
}  // namespace cera::cpu

#if defined(__x86_64__)
#include <immintrin.h>

#include "backends/cpu/x86/avx2_begin.h"
namespace cera::cpu::avx2 {
/// GFLOPS of twelve independent chains.
double fma_roof() {
  __m256 sum[12];
  for (int i = 0; i < 12; ++i) sum[i] = _mm256_set1_ps(float(i));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  const double start = cpu_seconds();
  constexpr int n = 4'000'000;
  for (int k = 0; k < n; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  }
  const double time = cpu_seconds() - start;
  float kept[8];
  for (int i = 1; i < 12; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  _mm256_storeu_ps(kept, sum[0]);
  return n * 12.0 * 16 / time * 1e-9 + (kept[0] > 1e30f ? 1 : 0);
}

/// GB/s of reading a block much larger than the caches.
double read_roof() {
  static const std::vector<float> block(24 << 20, 1.0f);
  __m256 sum[4] = {};
  const double start = cpu_seconds();
  for (size_t i = 0; i < block.size(); i += 32) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      sum[j] = _mm256_add_ps(sum[j], _mm256_loadu_ps(block.data() + i + 8 * j));
    }
  }
  const double time = cpu_seconds() - start;
  const float kept =
      _mm256_cvtss_f32(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
  return double(block.size()) * 4 / time * 1e-9 + (kept < 0 ? 1 : 0);
}
}  // namespace cera::cpu::avx2
#include "backends/cpu/x86/avx2_end.h"
#endif

namespace cera::cpu {
namespace {

double seconds_of(const auto& body) {
  const double start = cpu_seconds();
  body();
  return cpu_seconds() - start;
}

/// The best of repeated runs within about 0.4 s: the machine is shared.
double best_seconds(const auto& body) {
  double best = 1e9, total = 0;
  for (int i = 0; i < 3 || (total < 0.4 && i < 2000); ++i) {
    const double t = seconds_of(body);
    best = std::min(best, t);
    total += t;
  }
  return best;
}

/// One attention layer at a time out of n_layers, so that decode finds its cells in memory, not in
/// cache.
struct Bench {
  Plan plan;
  std::unique_ptr<CpuState> state;
  std::vector<std::unique_ptr<LoweredOp>> attention, rope_store;
  std::vector<float> qkv, out, cosines, sines;
  AlignedMemory scratch;
  std::vector<uint32_t> pages;

  Bench(HeadShape heads, uint32_t n_layers, uint32_t n_cells, uint32_t n_threads) {
    const uint32_t width = (heads.n_heads + 2 * heads.n_kv_heads) * heads.head_dim;
    plan.buffers = {{width, RowSet::step, "qkv"},
                    {heads.n_heads * heads.head_dim, RowSet::step, "attention"}};
    plan.ropes.push_back({RopePairs::halves, heads.head_dim, {}, 1});
    const LowerContext context = {plan, CpuTier::avx2, n_threads, 512, 1};
    size_t scratch_bytes = 0;
    for (uint32_t layer = 0; layer < n_layers; ++layer) {
      plan.state.kv_layers.push_back({heads.n_kv_heads, heads.head_dim});
      plan.ops.push_back(
          AttentionOp{0, 1, layer, heads.n_heads, heads.n_kv_heads, heads.head_dim, 0.125f});
      plan.ops.push_back(
          RopeStoreOp{0, layer, heads.n_heads, heads.n_kv_heads, heads.head_dim, {}, {}, 0});
    }
    for (uint32_t layer = 0; layer < n_layers; ++layer) {
      attention.push_back(*lower_attention(std::get<AttentionOp>(plan.ops[2 * layer]), context));
      rope_store.push_back(
          *lower_rope_store(std::get<RopeStoreOp>(plan.ops[2 * layer + 1]), context));
      scratch_bytes = std::max(scratch_bytes, attention.back()->scratch_bytes());
    }
    state = *CpuState::make(plan.state, {.n_pages = div_up(n_cells, kPageCells)});
    scratch = *allocate_aligned(scratch_bytes, "scratch");
    for (uint32_t page = 0; page < state->size().n_pages; ++page) pages.push_back(page);
    qkv.resize(512 * size_t(width));
    out.resize(512 * size_t(heads.n_heads) * heads.head_dim);
    cosines.assign(512 * heads.head_dim / 2, 0.8f);
    sines.assign(512 * heads.head_dim / 2, 0.6f);
    std::minstd_rand random(1);
    for (float& x : qkv) x = float(random()) / float(std::minstd_rand::max()) - 0.5f;
  }

  std::vector<Row> rows(uint32_t first, uint32_t n) const {
    std::vector<Row> made;
    for (uint32_t i = 0; i < n; ++i) made.push_back({0, first + i, first + i, first + i, 0, false});
    return made;
  }

  void run(ThreadPool& pool, const std::vector<Row>& rows, LoweredOp& op) {
    const SequenceView view = {0, pages};
    const Step step = {rows, {&view, 1}};
    float* buffers[] = {qkv.data(), out.data()};
    const float* cos = cosines.data();
    const float* sin = sines.data();
    op.run({pool, step, *state, buffers, uint32_t(rows.size()), 0, nullptr, &cos, &sin,
            scratch.get()});
  }
};

void measure(HeadShape heads, uint32_t n_threads) {
  constexpr uint32_t depth = 4096, n_rows = 512;
  ThreadPool pool(n_threads);
  const size_t cell_bytes = size_t(4) * heads.n_kv_heads * heads.head_dim;
  const uint32_t n_layers = uint32_t(div_up(size_t(96) << 20, cell_bytes * depth));
  Bench bench(heads, n_layers, depth + n_rows, n_threads);
  for (uint32_t layer = 0; layer < n_layers; ++layer) {
    for (uint32_t first = 0; first < depth + n_rows; first += n_rows) {
      bench.run(pool, bench.rows(first, n_rows), *bench.rope_store[layer]);
    }
  }
  std::printf("%u/%u/%u, %u threads:", heads.n_heads, heads.n_kv_heads, heads.head_dim, n_threads);
  const double store =
      best_seconds([&] { bench.run(pool, bench.rows(0, n_rows), *bench.rope_store[0]); });
  std::printf(" rope_store %.2f us/row;", store / n_rows * 1e6);
  for (uint32_t first : {0u, depth}) {
    const auto rows = bench.rows(first, n_rows);
    double flops = 0;
    for (const Row& row : rows)
      flops += 4.0 * heads.n_heads * heads.head_dim * (row.last_visible + 1);
    const double t = best_seconds([&] { bench.run(pool, rows, *bench.attention[0]); });
    std::printf(" prefill at %u %.1f GFLOPS;", first, flops / t * 1e-9);
  }
  const auto row = bench.rows(depth - 1, 1);
  double t = 1e9;
  for (int i = 0; i < 20; ++i) {
    t = std::min(t, seconds_of([&] {
                   for (auto& op : bench.attention) bench.run(pool, row, *op);
                 }));
  }
  std::printf(" decode at %u %.1f GB/s, %.0f us a layer;", depth,
              double(cell_bytes) * depth * n_layers / t * 1e-9, t / n_layers * 1e6);
  const auto near = bench.rows(40, 1);
  std::printf(" decode at 40 %.1f us a layer\n", best_seconds([&] {
                                                   for (auto& op : bench.attention)
                                                     bench.run(pool, near, *op);
                                                 }) / n_layers *
                                                     1e6);
}

}  // namespace
}  // namespace cera::cpu

int main(int argc, char** argv) {
  using namespace cera;
  const uint32_t n_threads = argc > 1 ? uint32_t(std::atoi(argv[1])) : 1;
#if defined(__x86_64__)
  double fma = 0, read = 0;
  for (int i = 0; i < 10; ++i) {
    fma = std::max(fma, cpu::avx2::fma_roof());
    read = std::max(read, cpu::avx2::read_roof());
  }
  std::printf("one thread: FMA roof %.1f GFLOPS, read roof %.1f GB/s\n", fma, read);
#endif
  for (const HeadShape heads : {HeadShape{9, 3, 64}, HeadShape{14, 2, 64}, HeadShape{12, 2, 128},
                                HeadShape{16, 8, 64}, HeadShape{32, 8, 128}, HeadShape{8, 8, 80}}) {
    cpu::measure(heads, n_threads);
  }
}
