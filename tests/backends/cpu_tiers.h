#pragma once

#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/cpu_info.h"

namespace cera::tests {

/// The tiers that this machine can run, lowest first.
inline std::vector<CpuTier> available_tiers() {
  const CpuTier best = read_cpu_info().best_tier;
  std::vector<CpuTier> tiers;
  for (CpuTier tier : {CpuTier::scalar, CpuTier::avx2, CpuTier::avx512}) {
    if (tier <= best) tiers.push_back(tier);
  }
  return tiers;
}

}  // namespace cera::tests
