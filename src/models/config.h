#pragma once
// What every architecture states in its metadata, read and checked before anything is allocated by
// it.

#include "base/error.h"
#include "models/keys.h"
#include "models/model.h"

namespace cera {

/// Widths and layer counts beyond this are refused: products of two widths' sums stay inside 32
/// bits.
inline constexpr uint32_t kMaxWidth = 1u << 24;

/// Errors name the key. Refuses features that this build does not compute instead of ignoring them.
Result<ModelConfig> read_config(KeyReader& keys);

}  // namespace cera
