#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/assert.h"

#ifdef __linux__
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cera {
namespace {

using Clock = std::chrono::steady_clock;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint32_t allowed_cores() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return uint32_t(CPU_COUNT(&set));
#endif
  return std::thread::hardware_concurrency();
}

/// Looks for `done()` without giving up the core for at most `limit`; false when time ran out.
template <class Done>
bool spin(std::chrono::microseconds limit, Done done) {
  for (int i = 0; i < 64; ++i) {
    if (done()) return true;
    relax();
  }
  const Clock::time_point end = Clock::now() + limit;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace

// A region is published by writing the job fields and then `claim` = generation | next task. Before
// the fields change, the claim of the old region is closed: a late worker may still look at fields
// that are being replaced, but it runs a task only after a compare-and-swap on the claim that it
// read before them.
struct ThreadPool::Impl {
  static constexpr uint64_t task_mask = 0xffffffff;
  static constexpr uint64_t stop = ~uint64_t{0};

  alignas(64) std::atomic<uint64_t> claim{task_mask};
  alignas(64) std::atomic<uint32_t> finished{0};
  std::atomic<bool> caller_sleeps{false};
  alignas(64) std::atomic<uint32_t> n_tasks{0};
  std::atomic<Call> call{nullptr};
  std::atomic<void*> context{nullptr};
  alignas(64) std::atomic<uint32_t> epoch{0};  // what idle workers sleep on
  std::atomic<uint32_t> sleepers{0};

  uint32_t n_threads = 1;
  std::chrono::microseconds spin_limit{30};
  std::mutex region;
  std::vector<std::thread> threads;

  /// Takes tasks of the region that `seen` belongs to until none is left.
  void work(uint64_t seen, uint32_t worker) {
    const uint64_t generation = seen & ~task_mask;
    const uint32_t tasks = n_tasks.load(std::memory_order_acquire);
    const Call body = call.load(std::memory_order_acquire);
    void* const body_context = context.load(std::memory_order_acquire);
    uint32_t mine = 0;
    while ((seen & ~task_mask) == generation && uint32_t(seen) < tasks) {
      if (!claim.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
        continue;
      body(body_context, uint32_t(seen), worker);
      ++mine;
      seen = claim.load(std::memory_order_acquire);
    }
    if (mine == 0) return;
    const uint32_t total = finished.fetch_add(mine) + mine;
    if (total == tasks && caller_sleeps.load()) finished.notify_one();
  }

  void serve(uint32_t worker) {
    uint64_t last = task_mask;  // not claim: a pool may be stopped before its threads get here
    for (;;) {
      const auto news = [&] { return (claim.load() ^ last) > task_mask; };
      if (!spin(spin_limit, news)) {
        sleepers.fetch_add(1);
        const uint32_t before = epoch.load();
        if (!news()) epoch.wait(before);
        sleepers.fetch_sub(1);
        continue;
      }
      last = claim.load();
      if (last == stop) return;
      work(last, worker);
    }
  }

  void publish(uint64_t value) {
    claim.store(value);
    if (sleepers.load() == 0) return;
    epoch.fetch_add(1);
    epoch.notify_all();
  }

  void wait_for_workers(uint32_t tasks) {
    // After a while the missing worker is probably waiting for this very core: sleep.
    if (spin(spin_limit, [&] { return finished.load() == tasks; })) return;
    caller_sleeps.store(true);
    for (uint32_t now; (now = finished.load()) != tasks;) finished.wait(now);
    caller_sleeps.store(false);
  }
};

ThreadPool::ThreadPool(uint32_t n_threads) : impl_(std::make_unique<Impl>()) {
  CERA_ASSERT(n_threads >= 1);
  impl_->n_threads = n_threads;
  if (n_threads > allowed_cores()) impl_->spin_limit = std::chrono::microseconds(2);
  impl_->threads.reserve(n_threads - 1);
  for (uint32_t i = 1; i < n_threads; ++i)
    impl_->threads.emplace_back([this, i] { impl_->serve(i); });
}

ThreadPool::~ThreadPool() {
  impl_->publish(Impl::stop);
  for (std::thread& thread : impl_->threads) thread.join();
}

uint32_t ThreadPool::size() const {
  return impl_->n_threads;
}

void ThreadPool::run_raw(uint32_t n_tasks, Call call, void* context) {
  CERA_DASSERT(n_tasks < UINT32_MAX);
  Impl& pool = *impl_;
  const std::lock_guard lock(pool.region);
  if (pool.n_threads == 1 || n_tasks == 1) {
    for (uint32_t task = 0; task < n_tasks; ++task) call(context, task, 0);
    return;
  }
  const uint64_t closed = pool.claim.load(std::memory_order_relaxed) | Impl::task_mask;
  pool.claim.store(closed);
  pool.finished.store(0);
  pool.n_tasks.store(n_tasks, std::memory_order_release);
  pool.call.store(call, std::memory_order_release);
  pool.context.store(context, std::memory_order_release);
  pool.publish(closed + 1);
  pool.work(closed + 1, 0);
  pool.wait_for_workers(n_tasks);
}

}  // namespace cera
