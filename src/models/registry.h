#pragma once
// One row for each architecture that this build runs; everything else about it is in its own file
// in arch/.

#include <span>
#include <string_view>

#include "models/reader.h"

namespace cera {

struct Architecture {
  std::string_view name;  // general.architecture
  void (*build)(ModelReader& m);
};

/// Sorted by name.
std::span<const Architecture> all_architectures();
const Architecture* find_architecture(std::string_view name);

}  // namespace cera
