#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cera {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const uint32_t n_threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.size(), n_threads);
    for (uint32_t n_tasks : {0u, 1u, 2u, 3u, 7u, 100u, 1000u}) {
      std::vector<int> counts(n_tasks);  // not atomic: a task belongs to one worker
      std::atomic<uint32_t> bad_workers{0};
      pool.run(n_tasks, [&](uint32_t task, uint32_t worker) {
        ++counts[task];
        if (worker >= n_threads) ++bad_workers;
      });
      EXPECT_EQ(counts, std::vector<int>(n_tasks, 1)) << n_threads << " threads";
      EXPECT_EQ(bad_workers, 0u);
    }
  }
}

TEST(ThreadPool, PublishesWhatTheCallerWroteAndReturnsWhatWorkersWrote) {
  ThreadPool pool(4);
  std::vector<uint32_t> in(64), out(64);
  for (uint32_t round = 1; round < 3000; ++round) {
    for (uint32_t& x : in) x = round;
    pool.run(64, [&](uint32_t task, uint32_t) { out[task] = in[task] * 2; });
    for (const uint32_t x : out) ASSERT_EQ(x, 2 * round);
  }
}

TEST(ThreadPool, AWorkerIsNeverInTwoTasksAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> inside[3] = {};
  std::atomic<bool> overlap{false};
  pool.run(500, [&](uint32_t, uint32_t worker) {
    if (inside[worker].fetch_add(1) != 0) overlap = true;
    inside[worker].fetch_sub(1);
  });
  EXPECT_FALSE(overlap);
}

TEST(ThreadPool, WorkersHelp) {
  ThreadPool pool(2);
  // Each of two tasks waits for the other: only two threads can finish them.
  std::atomic<int> arrived{0};
  pool.run(2, [&](uint32_t, uint32_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(2);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than a worker spins
    std::atomic<int> arrived{0};
    pool.run(2, [&](uint32_t, uint32_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

TEST(ThreadPool, ACallerThatFellAsleepIsWoken) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0}, finished{0};
  pool.run(2, [&](uint32_t, uint32_t worker) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    // Longer than the caller spins for it.
    if (worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++finished;
  });
  EXPECT_EQ(finished, 2);
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int> regions{0};
  std::atomic<bool> overlap{false};
  uint64_t total = 0;  // guarded by the pool's own order
  const auto caller = [&] {
    for (int i = 0; i < 200; ++i) {
      std::atomic<uint32_t> sum{0};
      pool.run(5, [&](uint32_t task, uint32_t) {
        if (task == 0 && regions.fetch_add(1) != 0) overlap = true;
        sum += task;
        if (task == 0) {
          total += 1;
          regions.fetch_sub(1);
        }
      });
      if (sum != 10) overlap = true;
    }
  };
  std::thread a(caller), b(caller), c(caller);
  a.join();
  b.join();
  c.join();
  EXPECT_FALSE(overlap);
  EXPECT_EQ(total, 600u);
}

TEST(ThreadPool, StartsAndStopsAtOnce) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    std::atomic<int> n{0};
    pool.run(2, [&](uint32_t, uint32_t) { ++n; });
    EXPECT_EQ(n, 2);
  }
}

double milliseconds_of_empty_regions(uint32_t n_threads, int n) {
  ThreadPool pool(n_threads);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; ++i) pool.run(n_threads, [](uint32_t, uint32_t) {});
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Generous limits, for shared machines and sanitizers: a pool that sleeps in every region, or whose
// waiting workers keep the working one from its core, needs many times as long.
TEST(ThreadPool, EmptyRegionsCostLittle) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, milliseconds_of_empty_regions(2, 10000));
  RecordProperty("milliseconds_per_10000", std::to_string(best));
  EXPECT_LT(best, 400);
}

TEST(ThreadPool, MoreThreadsThanCoresDoNotCollapse) {
  const uint32_t n_threads = 4 * std::max(1u, std::thread::hardware_concurrency());
  double best = 1e9;
  for (int i = 0; i < 3; ++i) best = std::min(best, milliseconds_of_empty_regions(n_threads, 500));
  EXPECT_LT(best, 1000);
}

}  // namespace
}  // namespace cera
