#pragma once
// Metadata values: how each GGUF type is held in memory, and reading one.

#include <string_view>

#include "gguf/cursor.h"
#include "gguf/gguf.h"

namespace cera::gguf {

inline constexpr int deepest_nesting = 4;  // arrays within arrays

bool is_known(ValueType type);

/// Calls f.template operator()<Stored, Wide>() with the type in the file and the type in memory of
/// a scalar numeric `type`. Not for boolean, string and array.
template <class F>
auto with_number_type(ValueType type, F&& f) {
  switch (type) {
    case ValueType::u8:
      return f.template operator()<uint8_t, uint64_t>();
    case ValueType::i8:
      return f.template operator()<int8_t, int64_t>();
    case ValueType::u16:
      return f.template operator()<uint16_t, uint64_t>();
    case ValueType::i16:
      return f.template operator()<int16_t, int64_t>();
    case ValueType::u32:
      return f.template operator()<uint32_t, uint64_t>();
    case ValueType::i32:
      return f.template operator()<int32_t, int64_t>();
    case ValueType::f32:
      return f.template operator()<float, double>();
    case ValueType::u64:
      return f.template operator()<uint64_t, uint64_t>();
    case ValueType::i64:
      return f.template operator()<int64_t, int64_t>();
    default:
      return f.template operator()<double, double>();
  }
}

/// A type id and the value after it. `what` names the entry in messages.
Result<Entry> read_entry(Cursor& in, std::string_view what);

}  // namespace cera::gguf
