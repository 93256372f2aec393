#pragma once
// Which buffers an op reads and writes.

#include <array>
#include <variant>

#include "ops/op.h"

namespace cera {

/// Calls visit(BufferId&) or visit(const BufferId&) for every buffer the op names: inputs, then
/// outputs.
template <class OpVariant, class Visit>
void for_each_buffer(OpVariant& op, Visit&& visit) {
  std::visit(
      [&](auto& o) {
        if constexpr (requires { o.in; }) visit(o.in);
        if constexpr (requires { o.qkv; }) visit(o.qkv);
        if constexpr (requires { o.bcx; }) visit(o.bcx);
        if constexpr (requires { o.out; }) visit(o.out);
      },
      op);
}

}  // namespace cera
