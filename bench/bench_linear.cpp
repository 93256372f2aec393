// Speed of linear on this machine beside its roofs, all measured in the same run:
//   bench_linear [--threads N] [--type NAME] [--seconds S] [--tier scalar|avx2] [--rows M]...
//   [--shape NxK]...
//                [--megabytes B]
// One activation row: GB/s of weights, from a set of matrices larger than any cache (B). Many rows:
// GOPS (two per multiply-add), including norm-free quantising and packing. Best and median of many
// repetitions; on a busy machine short ones (--threads 1 and a small shape) still find the machine
// free now and then.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/aligned_memory.h"
#include "backends/cpu/lowered_op.h"
#include "quant/types.h"

namespace {

using namespace cera;
using Clock = std::chrono::steady_clock;

struct Shape {
  uint32_t n_rows, n_cols;
};

struct Settings {
  uint32_t threads = 2;
  double seconds = 1;
  std::string type;
  std::string tier;
  std::vector<uint32_t> rows;
  std::vector<Shape> shapes;
  size_t set_bytes = 256 << 20;  // more than the last cache holds
};

struct Times {
  double best, median;  // seconds
};

/// Repeats work for about `seconds`, at least 5 times.
template <class Work>
Times measure(double seconds, Work work) {
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (times.size() < 5 || Clock::now() < end) {
    const auto start = Clock::now();
    work();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

// ---- roofs ----

#if defined(__x86_64__)
__attribute__((target("avx2"))) uint64_t read_all(const std::byte* data, size_t n_bytes) {
  __m256i sum[4] = {};
  for (size_t at = 0; at + 128 <= n_bytes; at += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(data + at + 2048), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + at + 2112), _MM_HINT_T0);
    for (int i = 0; i < 4; ++i)
      sum[i] = _mm256_xor_si256(
          sum[i], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + at + 32 * i)));
  }
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  return uint64_t(_mm256_extract_epi64(all, 0));
}

// The arithmetic roofs are written in assembly: nothing else then decides what stays in registers.
#define CERA_MADD(acc, temp) \
  "vpmaddubsw %%ymm15, %%ymm14, %%ymm" temp "\n vpaddw %%ymm" temp ", %%ymm" acc ", %%ymm" acc "\n"
#define CERA_FMA(acc) "vfmadd231ps %%ymm15, %%ymm14, %%ymm" acc "\n"
#define CERA_CLOBBERS                                                                      \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13"

/// 8 independent chains of maddubs and 16-bit additions: 64 operations a step and chain.
__attribute__((target("avx2"))) void multiply_bytes(uint64_t n_steps) {
  for (uint64_t step = 0; step < n_steps; ++step)
    asm volatile(CERA_MADD("0", "8") CERA_MADD("1", "9") CERA_MADD("2", "10") CERA_MADD("3", "11")
                     CERA_MADD("4", "12") CERA_MADD("5", "13") CERA_MADD("6", "8")
                         CERA_MADD("7", "9")::
                             : CERA_CLOBBERS);
}

/// 10 independent chains of f32 fma: 16 operations a step and chain.
__attribute__((target("avx2,fma"))) void multiply_floats(uint64_t n_steps) {
  asm volatile("vpxor %%ymm15, %%ymm15, %%ymm15\n vpxor %%ymm14, %%ymm14, %%ymm14" ::
                   : "xmm14", "xmm15");
  for (uint64_t step = 0; step < n_steps; ++step)
    asm volatile(CERA_FMA("0") CERA_FMA("1") CERA_FMA("2") CERA_FMA("3") CERA_FMA("4") CERA_FMA("5")
                     CERA_FMA("6") CERA_FMA("7") CERA_FMA("8") CERA_FMA("9")::
                         : CERA_CLOBBERS);
}

volatile uint64_t result;  // keeps the reading from being removed

void print_roofs(const Settings& settings, ThreadPool& pool, const std::byte* data) {
  const size_t set_bytes = settings.set_bytes, share = set_bytes / (settings.threads * 8);
  const Times read = measure(settings.seconds, [&] {
    pool.run(settings.threads * 8,
             [&](uint32_t i, uint32_t) { result = read_all(data + i * share, share); });
  });
  constexpr uint64_t n_steps = 1 << 14;  // short: the best is then undisturbed
  const Times bytes = measure(settings.seconds, [&] {
    pool.run(settings.threads, [&](uint32_t, uint32_t) { multiply_bytes(n_steps); });
  });
  const Times floats = measure(settings.seconds, [&] {
    pool.run(settings.threads, [&](uint32_t, uint32_t) { multiply_floats(n_steps); });
  });
  const double threads = settings.threads, steps = n_steps;
  std::printf(
      "roofs                  read %6.1f (%5.1f) GB/s   int8 %6.0f (%4.0f) GOPS   f32 %5.0f "
      "(%4.0f) GFLOPS\n",
      double(set_bytes) / read.best / 1e9, double(set_bytes) / read.median / 1e9,
      threads * steps * 8 * 64 / bytes.best / 1e9, threads * steps * 8 * 64 / bytes.median / 1e9,
      threads * steps * 10 * 16 / floats.best / 1e9,
      threads * steps * 10 * 16 / floats.median / 1e9);
}
#else
void print_roofs(const Settings&, ThreadPool&, const std::byte*) {}
#endif

// ---- linear ----

/// Ops on matrices of one shape that lie one after another, and what it takes to run them.
struct Bench {
  Plan plan;
  std::vector<std::unique_ptr<cpu::LoweredOp>> ops;
  std::vector<float> in, out;
  cpu::AlignedMemory scratch;
  std::unique_ptr<cpu::CpuState> state;
  size_t weight_bytes = 0;  // of one matrix

  Bench(const TypeInfo& info, Shape shape, uint32_t n_rows, size_t n_ops, const Settings& settings,
        CpuTier tier, std::byte* data) {
    plan.buffers = {{shape.n_cols, RowSet::step, "in"}, {shape.n_rows, RowSet::step, "out"}};
    Weight weight;
    weight.type = info.type;
    weight.n_rows = shape.n_rows;
    weight.n_cols = shape.n_cols;
    weight.row_bytes = size_t{shape.n_cols} / info.block_size * info.block_bytes;
    weight_bytes = weight.n_rows * weight.row_bytes;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> row(shape.n_cols);
    for (float& x : row) x = normal(random);
    for (size_t i = 0; i < n_ops; ++i) {
      weight.data = data + i * weight_bytes;
      std::byte* const to = data + i * weight_bytes;
      info.pack(row.data(), to, shape.n_cols);
      for (uint32_t r = 1; r < shape.n_rows; ++r)
        std::memcpy(to + r * weight.row_bytes, to, weight.row_bytes);
      LinearOp op;
      op.in = 0;
      op.out = 1;
      op.weights = {weight};
      ops.push_back(*cpu::lower_linear(op, {plan, tier, settings.threads, n_rows, 1}));
    }
    in.resize(size_t{n_rows} * shape.n_cols);
    for (float& x : in) x = normal(random);
    out.resize(size_t{n_rows} * shape.n_rows);
    scratch = *cpu::allocate_aligned(ops[0]->scratch_bytes(), "scratch");
    state = *cpu::CpuState::make({}, {});
  }

  void run(ThreadPool& pool, uint32_t n_rows) {
    float* buffers[] = {in.data(), out.data()};
    const Step step;
    for (auto& op : ops)
      op->run({pool, step, *state, buffers, n_rows, 0, nullptr, nullptr, nullptr, scratch.get()});
  }
};

void bench_type(const TypeInfo& info, const Settings& settings, CpuTier tier, ThreadPool& pool,
                std::byte* data) {
  for (const Shape shape : settings.shapes) {
    if (shape.n_cols % info.block_size != 0) continue;
    std::printf("%-5.*s N%-5u K%-5u", int(info.name.size()), info.name.data(), shape.n_rows,
                shape.n_cols);
    for (const uint32_t n_rows : settings.rows) {
      const size_t row_bytes = size_t{shape.n_cols} / info.block_size * info.block_bytes;
      const size_t n_ops =
          n_rows < 4 ? std::max<size_t>(1, settings.set_bytes / (shape.n_rows * row_bytes)) : 1;
      Bench bench(info, shape, n_rows, n_ops, settings, tier, data);
      const Times t = measure(settings.seconds, [&] { bench.run(pool, n_rows); });
      const double gigabytes = double(n_ops * bench.weight_bytes) / 1e9;
      const double operations = 2e-9 * n_rows * double(n_ops) * shape.n_rows * shape.n_cols;
      if (n_rows < 4)
        std::printf("  M%u: %5.1f (%5.1f) GB/s", n_rows, gigabytes / t.best, gigabytes / t.median);
      else
        std::printf("  M%u: %4.0f (%4.0f) GOPS", n_rows, operations / t.best,
                    operations / t.median);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--threads") settings.threads = uint32_t(std::stoul(value));
    if (key == "--seconds") settings.seconds = std::stod(value);
    if (key == "--type") settings.type = value;
    if (key == "--tier") settings.tier = value;
    if (key == "--rows") settings.rows.push_back(uint32_t(std::stoul(value)));
    if (key == "--megabytes") settings.set_bytes = std::stoul(value) << 20;
    if (key == "--shape") {
      const size_t x = value.find('x');
      settings.shapes.push_back(
          {uint32_t(std::stoul(value)), uint32_t(std::stoul(value.substr(x + 1)))});
    }
  }
  if (settings.shapes.empty())
    settings.shapes = {{4608, 1024}, {8192, 2048}, {1536, 576}, {576, 1536}};
  if (settings.rows.empty()) settings.rows = {1, 512};
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  const auto tier = choose_tier(read_cpu_info(), settings.tier.c_str());
  if (!tier.has_value()) {
    std::fprintf(stderr, "error: %s\n", tier.error().text().c_str());
    return 1;
  }
  ThreadPool pool(settings.threads);
  const size_t memory_bytes = settings.set_bytes + (64 << 20);
  auto memory = cpu::allocate_aligned(memory_bytes, "weights");
  std::memset(memory->get(), 1, memory_bytes);
  std::printf("%u threads, best (median) of repetitions\n", settings.threads);
  print_roofs(settings, pool, memory->get());
  for (const TypeInfo& info : all_types()) {
    if (!settings.type.empty() && settings.type != info.name) continue;
    bench_type(info, settings, *tier, pool, memory->get());
  }
  print_roofs(settings, pool, memory->get());
  return 0;
}
