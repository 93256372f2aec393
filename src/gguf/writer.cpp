// Writing GGUF version 3. The same calls give the same bytes.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/atomic_file.h"
#include "base/checked.h"
#include "gguf/cursor.h"
#include "gguf/parser.h"
#include "gguf/values.h"

namespace cera::gguf {
namespace {

using ArrayPtr = std::shared_ptr<const Array>;
using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& out, T value) {
  const auto* start = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), start, start + sizeof(T));
}

void append_string(Bytes& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  const auto* start = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), start, start + text.size());
}

void pad_to(Bytes& out, uint64_t alignment) {
  out.resize(round_up<uint64_t>(out.size(), alignment));
}

template <class Stored, class Wide>
bool append_number(Bytes& out, Wide value) {
  if constexpr (std::is_integral_v<Stored>) {
    const auto narrow = checked_cast<Stored>(value);
    if (!narrow) return false;
    append(out, *narrow);
  } else {
    if (std::isfinite(value) && std::fabs(value) > Wide(std::numeric_limits<Stored>::max()))
      return false;
    append(out, Stored(value));
  }
  return true;
}

/// False when the stored value is not of the type, or does not fit it.
bool append_scalar(Bytes& out, const Value& value, ValueType type) {
  if (type == ValueType::boolean) {
    if (!std::holds_alternative<bool>(value)) return false;
    append(out, uint8_t(std::get<bool>(value)));
    return true;
  }
  if (type == ValueType::string) {
    if (!std::holds_alternative<std::string>(value)) return false;
    append_string(out, std::get<std::string>(value));
    return true;
  }
  return with_number_type(type, [&]<class Stored, class Wide>() {
    return std::holds_alternative<Wide>(value) && append_number<Stored>(out, std::get<Wide>(value));
  });
}

bool append_array(Bytes& out, const Array& array, int depth);

bool append_element(Bytes& out, const ArrayPtr& element, ValueType type, int depth) {
  return type == ValueType::array && element && append_array(out, *element, depth + 1);
}

template <class Element>
bool append_element(Bytes& out, const Element& element, ValueType type, int) {
  return type != ValueType::array && append_scalar(out, Value(element), type);
}

bool append_array(Bytes& out, const Array& array, int depth) {
  if (depth > deepest_nesting || !is_known(array.element_type)) return false;
  append(out, array.element_type);
  append(out, uint64_t{array.size()});
  return std::visit(
      [&](const auto& elements) {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        for (const Element& element : elements)
          if (!append_element(out, element, array.element_type, depth)) return false;
        return true;
      },
      array.values);
}

Result<void> append_entry(Bytes& out, const std::string& key, const Entry& entry) {
  CERA_CHECK(check_name(key, "metadata key"));
  append_string(out, key);
  append(out, entry.type);
  bool fits = is_known(entry.type);
  if (fits && entry.type == ValueType::array) {
    const auto* array = std::get_if<ArrayPtr>(&entry.value);
    fits = array && *array && append_array(out, **array, 1);
  } else if (fits) {
    fits = append_scalar(out, entry.value, entry.type);
  }
  if (fits) return {};
  return fail(ErrorCode::invalid_argument, quoted(key), "the value does not fit its type {}",
              value_type_name(entry.type));
}

Result<uint64_t> chosen_alignment(std::span<const std::pair<std::string, Entry>> entries) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [](const auto& entry) { return entry.first == alignment_key; });
  if (found == entries.end()) return default_alignment;
  const auto* value = std::get_if<uint64_t>(&found->second.value);
  if (value && is_valid_alignment(*value)) return *value;
  return fail(ErrorCode::invalid_argument, std::string(alignment_key),
              "must be an unsigned power of two from {} to {}", smallest_alignment,
              largest_alignment);
}

template <class From, class To>
Value array_of(ValueType type, const From& from) {
  auto array = std::make_shared<Array>();
  array->element_type = type;
  array->values = std::vector<To>(from.begin(), from.end());
  return ArrayPtr(std::move(array));
}

}  // namespace

void Writer::set(std::string key, Value value, ValueType type) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&key](const auto& entry) { return entry.first == key; });
  Entry entry{type, std::move(value)};
  if (found != entries_.end()) {
    found->second = std::move(entry);
  } else {
    entries_.emplace_back(std::move(key), std::move(entry));
  }
}

void Writer::set_uint(std::string key, uint32_t value) {
  set(std::move(key), Value(uint64_t{value}), ValueType::u32);
}
void Writer::set_float(std::string key, float value) {
  set(std::move(key), Value(double{value}), ValueType::f32);
}
void Writer::set_bool(std::string key, bool value) {
  set(std::move(key), Value(value), ValueType::boolean);
}
void Writer::set_string(std::string key, std::string value) {
  set(std::move(key), Value(std::move(value)), ValueType::string);
}
void Writer::set_strings(std::string key, std::vector<std::string> values) {
  auto array = std::make_shared<Array>();
  array->element_type = ValueType::string;
  array->values = std::move(values);
  set(std::move(key), ArrayPtr(std::move(array)), ValueType::array);
}
void Writer::set_ints(std::string key, std::vector<int32_t> values) {
  set(std::move(key), array_of<std::vector<int32_t>, int64_t>(ValueType::i32, values),
      ValueType::array);
}
void Writer::set_floats(std::string key, std::vector<float> values) {
  set(std::move(key), array_of<std::vector<float>, double>(ValueType::f32, values),
      ValueType::array);
}

void Writer::add_tensor(std::string name, TensorType type, std::vector<uint64_t> dimensions,
                        std::span<const std::byte> data) {
  tensors_.push_back({std::move(name), type, std::move(dimensions), data});
}

Result<void> Writer::check_tensors() const {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : tensors_) {
    CERA_CHECK(check_name(tensor.name, "tensor name"));
    const std::string where = "tensor " + quoted(tensor.name);
    names.push_back(tensor.name);
    if (tensor.dimensions.empty() || tensor.dimensions.size() > 4)
      return fail(ErrorCode::invalid_argument, where, "has {} dimensions; 1 to 4 are possible",
                  tensor.dimensions.size());
    const auto size = tensor_size(uint32_t(tensor.type), tensor.dimensions);
    if (!size) return fail(ErrorCode::invalid_argument, where, "{}", size.error().message);
    if (size->bytes != tensor.data.size())
      return fail(ErrorCode::invalid_argument, where,
                  "has {} bytes of data; its type and dimensions need {}", tensor.data.size(),
                  size->bytes);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return fail(ErrorCode::invalid_argument, "tensor " + quoted(*twice), "was added twice");
}

Result<std::vector<std::byte>> Writer::header(uint64_t alignment) const {
  Bytes out;
  for (const char letter : std::string_view("GGUF")) append(out, letter);
  append(out, uint32_t{3});
  append(out, uint64_t{tensors_.size()});
  append(out, uint64_t{entries_.size()});
  for (const auto& [key, entry] : entries_) CERA_CHECK(append_entry(out, key, entry));
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append(out, uint32_t(tensor.dimensions.size()));
    for (const uint64_t dimension : tensor.dimensions) append(out, dimension);
    append(out, tensor.type);
    append(out, offset);
    offset += round_up<uint64_t>(tensor.data.size(), alignment);
  }
  pad_to(out, alignment);
  return out;
}

template <class Use>
Result<void> Writer::with_pieces(Use use) const {
  CERA_CHECK(check_tensors());
  CERA_TRY(const uint64_t alignment, chosen_alignment(entries_));
  CERA_TRY(const Bytes start, header(alignment));
  const Bytes zeros(alignment);
  std::vector<std::span<const std::byte>> pieces{start};
  for (const Tensor& tensor : tensors_) {
    const uint64_t size = tensor.data.size();
    pieces.push_back(tensor.data);
    pieces.push_back(std::span(zeros).first(round_up(size, alignment) - size));
  }
  return use(std::span<const std::span<const std::byte>>(pieces));
}

Result<std::vector<std::byte>> Writer::bytes() const {
  Bytes out;
  CERA_CHECK(with_pieces([&out](auto pieces) -> Result<void> {
    for (const auto piece : pieces) out.insert(out.end(), piece.begin(), piece.end());
    return {};
  }));
  return out;
}

Result<void> Writer::write(const std::string& path) const {
  return with_pieces([&path](auto pieces) { return write_file_atomically(path, pieces); });
}

}  // namespace cera::gguf
