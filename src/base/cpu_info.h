#pragma once
// What the processor can do and how much of it this process may use.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cera {

/// Instruction-set tiers of the CPU backend, in rising order; each contains those below it.
/// `scalar` is always there; `avx2` means AVX2, FMA and F16C; `avx512` means AVX-512 F, DQ, BW, VL,
/// VBMI and VNNI (Ice Lake, Zen 4 and later).
enum class CpuTier : uint8_t { scalar, avx2, avx512 };

std::string_view tier_name(CpuTier tier);

struct CpuInfo {
  CpuTier best_tier;          // what the hardware and the operating system allow
  std::string features;       // "avx2 fma f16c avx512f ...": those that matter to us
  std::string model_name;     // from the system, may be empty
  uint32_t logical_cores;     // online
  uint32_t physical_cores;    // distinct (package, core) pairs among the allowed ones
  uint32_t affinity_cores;    // in this thread's affinity mask
  double cgroup_quota_cores;  // the smallest quota along the cgroup v1/v2 chain; 0 = unlimited
};

/// Reads the system. `root` is "/" except in tests, which fake /proc and /sys under a folder.
CpuInfo read_cpu_info(const std::string& root = "/");

/// The tier to run: the best one, lowered by CERA_CPU_TIER (scalar|avx2|avx512). A value that is
/// unknown, or above what the machine has, is an error that says so.
Result<CpuTier> choose_tier(const CpuInfo& info, const char* environment_value);

struct ThreadChoice {
  uint32_t threads;
  std::string why;  // one line for people: "2: 2 physical cores, affinity 2, no cgroup quota"
};

/// requested 0 = automatic: max(1, floor(min(affinity, cgroup quota, physical cores))).
ThreadChoice choose_threads(const CpuInfo& info, uint32_t requested);

}  // namespace cera
