#include "gguf/values.h"

#include <array>

#include "base/assert.h"
#include "base/checked.h"

namespace cera::gguf {
namespace {

using ArrayPtr = std::shared_ptr<const Array>;

constexpr std::array<std::string_view, 13> names = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
// Generous cost in memory of one nested array, without its elements.
constexpr uint64_t array_cost = 160;
constexpr size_t inline_string_bytes = 15;  // that std::string keeps without a second allocation

/// Bytes of the smallest element in the file.
uint64_t smallest_element_bytes(ValueType type) {
  switch (type) {
    case ValueType::boolean:
      return 1;
    case ValueType::string:
      return 8;
    case ValueType::array:
      return 4 + 8;
    default:
      return with_number_type(type,
                              []<class Stored, class Wide>() { return uint64_t{sizeof(Stored)}; });
  }
}

Result<ValueType> read_type(Cursor& in, std::string_view what) {
  const uint64_t at = in.at();
  CERA_TRY(const auto id, in.read<uint32_t>(what));
  if (!is_known(ValueType(id)))
    return in.malformed("{} has the unknown value type {} at byte {}", what, id, at);
  return ValueType(id);
}

Result<bool> as_bool(const Cursor& in, std::byte value, uint64_t at, std::string_view what) {
  if (value > std::byte{1})
    return in.malformed("{} has {} at byte {} where a bool (0 or 1) is needed", what, int(value),
                        at);
  return value == std::byte{1};
}

template <class Stored, class Wide>
Result<std::vector<Wide>> read_numbers(Cursor& in, uint64_t n, std::string_view what) {
  CERA_CHECK(in.charge(n * sizeof(Wide), what));
  std::vector<Wide> values(n);
  const std::byte* from = in.take(n * sizeof(Stored));
  for (uint64_t i = 0; i < n; ++i) {
    Stored value;
    std::memcpy(&value, from + i * sizeof(Stored), sizeof(Stored));
    values[i] = Wide(value);
  }
  return values;
}

Result<std::vector<bool>> read_bools(Cursor& in, uint64_t n, std::string_view what) {
  CERA_CHECK(in.charge(n / 8 + 8, what));
  std::vector<bool> values(n);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t at = in.at();
    CERA_TRY(values[i], as_bool(in, *in.take(1), at, what));
  }
  return values;
}

Result<std::vector<std::string>> read_strings(Cursor& in, uint64_t n, std::string_view what) {
  CERA_CHECK(in.charge(n * sizeof(std::string), what));
  std::vector<std::string> values;
  values.reserve(n);
  for (uint64_t i = 0; i < n; ++i) {
    CERA_TRY(const std::string_view text, in.read_string(what));
    if (text.size() > inline_string_bytes) CERA_CHECK(in.charge(text.size() + 24, what));
    values.emplace_back(text);
  }
  return values;
}

Result<ArrayPtr> read_array(Cursor& in, int depth, std::string_view what);

Result<std::vector<ArrayPtr>> read_arrays(Cursor& in, uint64_t n, int depth,
                                          std::string_view what) {
  CERA_CHECK(in.charge(n * (sizeof(ArrayPtr) + array_cost), what));
  std::vector<ArrayPtr> values;
  values.reserve(n);
  for (uint64_t i = 0; i < n; ++i) {
    CERA_TRY(ArrayPtr value, read_array(in, depth + 1, what));
    values.push_back(std::move(value));
  }
  return values;
}

Result<ArrayPtr> read_array(Cursor& in, int depth, std::string_view what) {
  const uint64_t at = in.at();
  if (depth > deepest_nesting)
    return in.malformed("{} nests arrays more than {} deep at byte {}", what, deepest_nesting, at);
  CERA_TRY(const ValueType type, read_type(in, what));
  CERA_TRY(const uint64_t n, in.read<uint64_t>(what));
  // One check for the whole array, before anything is allocated for it.
  if (n > in.left() / smallest_element_bytes(type))
    return in.malformed(
        "{} claims an array of {} {} elements at byte {}, but only {} bytes are left", what, n,
        value_type_name(type), at, in.left());
  auto array = std::make_shared<Array>();
  array->element_type = type;
  const auto keep = [&array](auto values) -> Result<ArrayPtr> {
    if (!values) return std::unexpected(std::move(values).error());
    array->values = std::move(*values);
    return array;
  };
  switch (type) {
    case ValueType::boolean:
      return keep(read_bools(in, n, what));
    case ValueType::string:
      return keep(read_strings(in, n, what));
    case ValueType::array:
      return keep(read_arrays(in, n, depth, what));
    default:
      return with_number_type(type, [&]<class Stored, class Wide>() {
        return keep(read_numbers<Stored, Wide>(in, n, what));
      });
  }
}

Result<Value> read_value(Cursor& in, ValueType type, std::string_view what) {
  switch (type) {
    case ValueType::boolean: {
      const uint64_t at = in.at();
      CERA_TRY(const auto byte, in.read<std::byte>(what));
      CERA_TRY(const bool value, as_bool(in, byte, at, what));
      return Value(value);
    }
    case ValueType::string: {
      CERA_TRY(const std::string_view text, in.read_string(what));
      CERA_CHECK(in.charge(text.size() + 24, what));
      return Value(std::string(text));
    }
    case ValueType::array: {
      CERA_TRY(ArrayPtr array, read_array(in, 1, what));
      return Value(std::move(array));
    }
    default:
      return with_number_type(type, [&]<class Stored, class Wide>() -> Result<Value> {
        CERA_TRY(const Stored value, in.read<Stored>(what));
        return Value(Wide(value));
      });
  }
}

}  // namespace

bool is_known(ValueType type) {
  return uint32_t(type) < names.size();
}

std::string_view value_type_name(ValueType type) {
  return is_known(type) ? names[uint32_t(type)] : "unknown";
}

size_t Array::size() const {
  return std::visit([](const auto& elements) { return elements.size(); }, values);
}

Result<Entry> read_entry(Cursor& in, std::string_view what) {
  CERA_TRY(const ValueType type, read_type(in, what));
  CERA_TRY(Value value, read_value(in, type, what));
  return Entry{type, std::move(value)};
}

}  // namespace cera::gguf
