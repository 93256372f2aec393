// Typed access to metadata.

#include "base/checked.h"
#include "gguf/cursor.h"
#include "gguf/file_impl.h"

namespace cera::gguf {
namespace {

template <class T>
constexpr std::string_view wanted_name = "string";
template <>
constexpr std::string_view wanted_name<uint64_t> = "unsigned integer";
template <>
constexpr std::string_view wanted_name<int64_t> = "integer";
template <>
constexpr std::string_view wanted_name<double> = "number";
template <>
constexpr std::string_view wanted_name<bool> = "bool";

/// A stored number as the wanted kind, if it can be without loss of kind or size.
template <class To, class From>
std::optional<To> convert(const From& from) {
  constexpr bool is_integer = std::is_same_v<From, uint64_t> || std::is_same_v<From, int64_t>;
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_same_v<To, std::string_view> && std::is_same_v<From, std::string>) {
    return std::string_view(from);
  } else if constexpr (is_integer && std::is_same_v<To, double>) {
    return double(from);
  } else if constexpr (is_integer &&
                       (std::is_same_v<To, uint64_t> || std::is_same_v<To, int64_t>)) {
    return checked_cast<To>(from);
  } else {
    return std::nullopt;
  }
}

std::string describe(const Entry& entry) {
  if (const auto* array = std::get_if<std::shared_ptr<const Array>>(&entry.value))
    return fmt::format("an array of {} {}", (*array)->size(),
                       value_type_name((*array)->element_type));
  const std::string_view type = value_type_name(entry.type);
  if (const auto* u = std::get_if<uint64_t>(&entry.value))
    return fmt::format("the {} {}", type, *u);
  if (const auto* i = std::get_if<int64_t>(&entry.value)) return fmt::format("the {} {}", type, *i);
  if (const auto* f = std::get_if<double>(&entry.value)) return fmt::format("the {} {}", type, *f);
  if (const auto* b = std::get_if<bool>(&entry.value)) return fmt::format("the {} {}", type, *b);
  return fmt::format("the {} {}", type, quoted(std::get<std::string>(entry.value)));
}

/// Metadata of one file, and the errors about it.
struct Reader {
  const Contents& contents;

  Result<const Entry*> find(std::string_view key) const {
    const auto found = contents.metadata.find(key);
    if (found == contents.metadata.end())
      return fail(ErrorCode::not_found, contents.path, "metadata key '{}' is missing", key);
    return &found->second;
  }

  std::unexpected<Error> wrong(std::string_view key, const Entry& entry,
                               std::string_view wanted) const {
    return fail(ErrorCode::malformed, contents.path, "metadata key '{}' is {}, but {} is needed",
                key, describe(entry), wanted);
  }

  template <class T>
  Result<T> scalar(std::string_view key) const {
    CERA_TRY(const Entry* entry, find(key));
    const auto value =
        std::visit([](const auto& stored) { return convert<T>(stored); }, entry->value);
    if (!value) return wrong(key, *entry, fmt::format("one {}", wanted_name<T>));
    return *value;
  }

  template <class T>
  Result<std::optional<T>> optional_scalar(std::string_view key) const {
    if (!contents.metadata.contains(key)) return std::nullopt;
    CERA_TRY(const T value, scalar<T>(key));
    return value;
  }

  Result<const Array*> array(std::string_view key, std::string_view wanted) const {
    CERA_TRY(const Entry* entry, find(key));
    const auto* array = std::get_if<std::shared_ptr<const Array>>(&entry->value);
    if (!array) return wrong(key, *entry, fmt::format("an array of {}s", wanted));
    return array->get();
  }

  /// An empty array fits every kind, whatever element type it was written with.
  template <class T>
  Result<std::vector<T>> numbers(std::string_view key) const {
    CERA_TRY(const Array* from, array(key, wanted_name<T>));
    std::vector<T> values;
    values.reserve(from->size());
    const bool fits = std::visit(
        [&values](const auto& elements) {
          using Element = typename std::decay_t<decltype(elements)>::value_type;
          for (const Element& element : elements) {
            const auto value = convert<T, Element>(element);
            if (!value) return false;
            values.push_back(*value);
          }
          return true;
        },
        from->values);
    if (fits) return values;
    const std::string wanted = fmt::format("an array of {}s", wanted_name<T>);
    return fail(ErrorCode::malformed, contents.path,
                "metadata key '{}' is an array of {} whose element {} is not what is needed: {}",
                key, value_type_name(from->element_type), values.size(), wanted);
  }
};

}  // namespace

bool File::has(std::string_view key) const {
  return impl_->metadata.contains(key);
}

Result<uint64_t> File::get_uint(std::string_view key) const {
  return Reader{*impl_}.scalar<uint64_t>(key);
}
Result<int64_t> File::get_int(std::string_view key) const {
  return Reader{*impl_}.scalar<int64_t>(key);
}
Result<double> File::get_float(std::string_view key) const {
  return Reader{*impl_}.scalar<double>(key);
}
Result<bool> File::get_bool(std::string_view key) const {
  return Reader{*impl_}.scalar<bool>(key);
}
Result<std::string_view> File::get_string(std::string_view key) const {
  return Reader{*impl_}.scalar<std::string_view>(key);
}

Result<std::optional<uint64_t>> File::find_uint(std::string_view key) const {
  return Reader{*impl_}.optional_scalar<uint64_t>(key);
}
Result<std::optional<int64_t>> File::find_int(std::string_view key) const {
  return Reader{*impl_}.optional_scalar<int64_t>(key);
}
Result<std::optional<double>> File::find_float(std::string_view key) const {
  return Reader{*impl_}.optional_scalar<double>(key);
}
Result<std::optional<bool>> File::find_bool(std::string_view key) const {
  return Reader{*impl_}.optional_scalar<bool>(key);
}
Result<std::optional<std::string_view>> File::find_string(std::string_view key) const {
  return Reader{*impl_}.optional_scalar<std::string_view>(key);
}

Result<std::vector<uint64_t>> File::get_uints(std::string_view key, size_t n) const {
  const Reader reader{*impl_};
  CERA_TRY(const Entry* entry, reader.find(key));
  if (!std::holds_alternative<std::shared_ptr<const Array>>(entry->value)) {
    CERA_TRY(const uint64_t value, reader.scalar<uint64_t>(key));
    return std::vector<uint64_t>(n, value);
  }
  CERA_TRY(std::vector<uint64_t> values, reader.numbers<uint64_t>(key));
  if (values.size() != n)
    return reader.wrong(key, *entry, fmt::format("one unsigned integer or an array of {}", n));
  return values;
}

Result<std::span<const std::string>> File::get_strings(std::string_view key) const {
  CERA_TRY(const Array* array, Reader{*impl_}.array(key, "string"));
  if (array->size() == 0) return std::span<const std::string>();
  const auto* strings = std::get_if<std::vector<std::string>>(&array->values);
  if (strings) return std::span<const std::string>(*strings);
  return Reader{*impl_}.wrong(key, impl_->metadata.find(key)->second, "an array of strings");
}

Result<std::vector<int64_t>> File::get_int_array(std::string_view key) const {
  return Reader{*impl_}.numbers<int64_t>(key);
}

Result<std::vector<double>> File::get_float_array(std::string_view key) const {
  return Reader{*impl_}.numbers<double>(key);
}

}  // namespace cera::gguf
