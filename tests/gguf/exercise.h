#pragma once
// What must hold for every file that opens, whatever its bytes were. For tests and the fuzzer.

#include <algorithm>
#include <span>
#include <vector>

#include "base/assert.h"
#include "gguf/gguf.h"

namespace cera::gguf {

inline bool same_array(const Array& a, const Array& b);

inline bool same_value(const Value& a, const Value& b) {
  using Pointer = std::shared_ptr<const Array>;
  if (a.index() != b.index()) return false;
  if (const auto* array = std::get_if<Pointer>(&a))
    return same_array(**array, *std::get<Pointer>(b));
  const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return a == b || (x && *x != *x && *y != *y);
}

inline bool same_array(const Array& a, const Array& b) {
  if (a.element_type != b.element_type || a.values.index() != b.values.index()) return false;
  return std::visit(
      [&b](const auto& left) {
        using Elements = std::decay_t<decltype(left)>;
        const auto& right = std::get<Elements>(b.values);
        return std::equal(
            left.begin(), left.end(), right.begin(), right.end(),
            [](const auto& x, const auto& y) { return same_value(Value(x), Value(y)); });
      },
      a.values);
}

/// Equal metadata, tensors and tensor bytes; places in the file may differ.
inline bool same_contents(const File& a, const File& b) {
  const auto same_entry = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.type == y.second.type &&
           same_value(x.second.value, y.second.value);
  };
  const auto same_tensor = [](const TensorInfo& x, const TensorInfo& y) {
    return x.name == y.name && x.type_id == y.type_id && x.dimensions == y.dimensions &&
           x.size_bytes == y.size_bytes && std::equal(x.data, x.data + x.size_bytes, y.data);
  };
  return std::ranges::equal(a.metadata(), b.metadata(), same_entry) &&
         std::ranges::equal(a.tensors(), b.tensors(), same_tensor);
}

inline void exercise_metadata(const File& file) {
  for (const auto& [key, entry] : file.metadata()) {
    CERA_ASSERT(file.has(key) && !key.empty());
    // Answers and refusals are both fine; each must come without harm.
    (void)file.get_uint(key);
    (void)file.get_int(key);
    (void)file.get_float(key);
    (void)file.get_bool(key);
    (void)file.get_string(key);
    (void)file.get_uints(key, 3);
    (void)file.get_strings(key);
    (void)file.get_int_array(key);
    (void)file.get_float_array(key);
    (void)file.find_uint(key);
  }
}

/// Every tensor lies inside `bytes`, can be found by name, and can be unpacked when its type is one
/// of ours.
inline void exercise_tensors(const File& file, std::span<const std::byte> bytes) {
  uint64_t total_bytes = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    CERA_ASSERT(file.find_tensor(tensor.name) == &tensor);
    CERA_ASSERT(!tensor.dimensions.empty() && tensor.dimensions.size() <= 4);
    CERA_ASSERT(tensor.elements() > 0 && tensor.size_bytes > 0);
    CERA_ASSERT(tensor.file_offset <= bytes.size());
    CERA_ASSERT(tensor.size_bytes <= bytes.size() - tensor.file_offset);
    CERA_ASSERT(tensor.data == bytes.data() + tensor.file_offset);
    total_bytes += tensor.size_bytes;
    const TypeInfo* type = find_type(tensor.type_id);
    if (!type) continue;
    CERA_ASSERT(tensor.elements() / type->block_size * type->block_bytes == tensor.size_bytes);
    std::vector<float> values(type->block_size);
    type->unpack(tensor.data, values.data(), values.size());
    type->unpack(tensor.data + tensor.size_bytes - type->block_bytes, values.data(), values.size());
  }
  CERA_ASSERT(total_bytes <= bytes.size());  // follows from no overlaps
}

/// What we can read we can write, and read again the same.
inline void exercise_rewrite(const File& file) {
  Writer writer;
  for (const auto& [key, entry] : file.metadata()) writer.set(key, entry.value, entry.type);
  const TensorInfo* foreign = nullptr;
  for (const TensorInfo& tensor : file.tensors()) {
    if (!find_type(tensor.type_id)) foreign = &tensor;
    writer.add_tensor(tensor.name, TensorType(tensor.type_id), tensor.dimensions,
                      {tensor.data, tensor.size_bytes});
  }
  if (foreign) return;  // the writer takes our types only
  const auto bytes = writer.bytes();
  CERA_ASSERT(bytes.has_value());
  const auto again = File::from_bytes(*bytes);
  CERA_ASSERT(again.has_value());
  CERA_ASSERT(same_contents(file, **again));
}

inline void exercise(const File& file, std::span<const std::byte> bytes) {
  exercise_metadata(file);
  exercise_tensors(file, bytes);
  exercise_rewrite(file);
}

}  // namespace cera::gguf
