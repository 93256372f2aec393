#pragma once
// A block of memory aligned for vector code, not initialised.

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/checked.h"
#include "base/error.h"

namespace cera::cpu {

struct FreeMemory {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeMemory>;

inline constexpr size_t kAlignment = 64;

/// `what` names the memory in the error.
inline Result<AlignedMemory> allocate_aligned(size_t bytes, const char* what) {
  const auto padded = checked_add(bytes, kAlignment);  // never 0, room to round up
  void* p = padded ? std::aligned_alloc(kAlignment, *padded / kAlignment * kAlignment) : nullptr;
  if (p == nullptr) {
    return fail(ErrorCode::out_of_memory, what, "cannot allocate {} bytes", bytes);
  }
  return AlignedMemory(static_cast<std::byte*>(p));
}

}  // namespace cera::cpu
