#pragma once

#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/cpu_info.h"

namespace cera::tests {

/// The tiers that this machine can run, lowest first.
inline std::vector<CpuTier> available_tiers() {
  std::vector<CpuTier> tiers = {CpuTier::scalar};
  if (read_cpu_info().best_tier >= CpuTier::avx2) tiers.push_back(CpuTier::avx2);
  return tiers;
}

}  // namespace cera::tests
