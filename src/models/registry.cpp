#include "models/registry.h"

#include <algorithm>

namespace cera {

void build_lfm2(ModelReader& m);
void build_llama(ModelReader& m);
void build_qwen2(ModelReader& m);
void build_qwen3(ModelReader& m);

namespace {
constexpr Architecture kArchitectures[] = {
    {"lfm2", build_lfm2},
    {"llama", build_llama},
    {"qwen2", build_qwen2},
    {"qwen3", build_qwen3},
};
}  // namespace

std::span<const Architecture> all_architectures() {
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == std::end(kArchitectures) ? nullptr : found;
}

}  // namespace cera
