#pragma once
// A persistent fork-join pool: the caller is worker 0, the others spin for a short while and then
// sleep. One parallel region at a time per pool; `run` from two threads is serialised by a mutex.
// Results must not depend on which worker takes which task: kernels are written so.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cera {

class ThreadPool {
 public:
  /// n_threads >= 1 counts the caller; n_threads - 1 threads are started.
  explicit ThreadPool(uint32_t n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t size() const;

  /// Calls body(task, worker) for every task in [0, n_tasks), each exactly once; workers take tasks
  /// one by one from a shared counter. worker is in [0, size()) and owns per-worker scratch during
  /// the call. Returns when all are done. The body must not throw and must not call run on the same
  /// pool. No allocation.
  template <class Body>
  void run(uint32_t n_tasks, Body&& body) {
    if (n_tasks == 0) return;
    auto call = [](void* context, uint32_t task, uint32_t worker) {
      (*static_cast<std::remove_reference_t<Body>*>(context))(task, worker);
    };
    run_raw(n_tasks, call, const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* context, uint32_t task, uint32_t worker);
  void run_raw(uint32_t n_tasks, Call call, void* context);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cera
