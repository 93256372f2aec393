#include "ops/op.h"

namespace cera {

const char* op_name(const Op& op) {
  static constexpr const char* kNames[] = {"embed",     "linear",     "linear_glu", "rope_store",
                                           "attention", "short_conv", "take_rows"};
  static_assert(std::size(kNames) == std::variant_size_v<Op>);
  return kNames[op.index()];
}

}  // namespace cera
