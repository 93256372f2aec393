#pragma once

#include <memory>

#include "backends/backend.h"
#include "base/cpu_info.h"

namespace cera {

struct CpuBackendOptions {
  CpuTier tier = CpuTier::scalar;
  uint32_t n_threads = 1;
};

/// The CPU backend. Within one tier the logits of a row are the same bits whatever the chunking,
/// the neighbours in the step and the number of threads; and every tier follows the scalar
/// definitions in ops/ exactly, so tiers agree too.
std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace cera
