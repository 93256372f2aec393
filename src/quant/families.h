#pragma once
// The rows of the type table that each family file provides.

#include <span>

#include "quant/types.h"

namespace cera::quant {

std::span<const TypeInfo> float_types();
std::span<const TypeInfo> legacy_types();
std::span<const TypeInfo> k_quant_types();

}  // namespace cera::quant
