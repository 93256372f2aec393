#pragma once
// What this machine can do at best, measured in a moment: the yardstick of `bench`.

#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace cera {

struct Roofs {
  double read_gb_s = 0;   // streaming reads from memory, all threads
  double int8_gops = 0;   // u8 x s8 multiply-adds, 2 ops each, all threads
  double f32_gflops = 0;  // fused multiply-adds, 2 ops each, all threads
};

/// Takes about half a second and 128 MiB. Numbers of the scalar tier are those of plain code.
Roofs measure_roofs(ThreadPool& pool, CpuTier tier);

}  // namespace cera
