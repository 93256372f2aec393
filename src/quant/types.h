#pragma once
// Tensor element types of GGUF and their scalar pack/unpack, which are the definition of each
// format. One file per family: float.cpp, legacy.cpp (Q4_0..Q8_0), k_quants.cpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cera {

/// Values are GGUF's own ids (ggml_type).
enum class TensorType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30,
};

struct TypeInfo {
  TensorType type;
  std::string_view name;  // "Q4_K", as llama.cpp and Hugging Face print it
  uint32_t block_size;    // elements per block: 1, 32 or 256
  uint32_t block_bytes;
  /// n is a multiple of block_size. `from` needs no alignment.
  void (*unpack)(const std::byte* from, float* to, size_t n);
  /// Round-to-nearest quantiser (no search). Non-finite input gives unspecified finite codes, never
  /// UB.
  void (*pack)(const float* from, std::byte* to, size_t n);
};

/// nullptr for an id that this build does not run.
const TypeInfo* find_type(uint32_t gguf_id);
const TypeInfo& type_info(TensorType type);
std::span<const TypeInfo> all_types();

/// Name of any GGUF type id, also of those we cannot run ("IQ2_XS"); "unknown" for an unpublished
/// one.
std::string_view gguf_type_name(uint32_t gguf_id);

struct BlockShape {
  uint32_t size;  // elements
  uint32_t bytes;
};
/// Of any published GGUF type, also of those we cannot run.
std::optional<BlockShape> gguf_block_shape(uint32_t gguf_id);

}  // namespace cera
