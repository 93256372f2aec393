#include "models/keys.h"

#include <cmath>
#include <type_traits>

#include "base/checked.h"

namespace cera {
namespace {

bool holds_only(const gguf::Value& value, double neutral);

bool array_holds_only(const gguf::Array& array, double neutral) {
  return std::visit(
      [&](const auto& values) {
        for (const auto& element : values)
          if (!holds_only(gguf::Value(element), neutral)) return false;
        return true;
      },
      array.values);
}

bool holds_only(const gguf::Value& value, double neutral) {
  return std::visit(
      [&](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<T>) return double(held) == neutral;
        if constexpr (std::is_same_v<T, std::shared_ptr<const gguf::Array>>)
          return array_holds_only(*held, neutral);
        return false;
      },
      value);
}

}  // namespace

std::unexpected<Error> KeyReader::wrong_key(ErrorCode code, std::string_view name,
                                            std::string message) const {
  return fail(code, file_.path(), "metadata key '{}': {}", name, message);
}

Result<uint32_t> KeyReader::narrow(uint64_t value, std::string_view name) const {
  if (const auto fits = checked_cast<uint32_t>(value)) return *fits;
  return wrong_key(ErrorCode::malformed, name, fmt::format("{} is too large", value));
}

std::string KeyReader::note(std::string_view key) {
  return *read_.insert(full_name(key)).first;
}

Result<uint32_t> KeyReader::uint(std::string_view key) {
  const std::string name = note(key);
  CERA_TRY(const uint64_t value, file_.get_uint(name));
  return narrow(value, name);
}

Result<uint32_t> KeyReader::uint_or(std::string_view key, uint32_t fallback) {
  const std::string name = note(key);
  CERA_TRY(const auto value, file_.find_uint(name));
  return value ? narrow(*value, name) : fallback;
}

Result<double> KeyReader::number(std::string_view key) {
  const std::string name = note(key);
  CERA_TRY(const double value, file_.get_float(name));
  if (!std::isfinite(value)) return wrong(ErrorCode::malformed, key, "is not a finite number");
  return value;
}

Result<double> KeyReader::number_or(std::string_view key, double fallback) {
  if (has(key)) return number(key);
  note(key);
  return fallback;
}

Result<std::string> KeyReader::string_or(std::string_view key, std::string fallback) {
  CERA_TRY(const auto value, file_.find_string(note(key)));
  return value ? std::string(*value) : fallback;
}

Result<std::vector<uint32_t>> KeyReader::per_layer(std::string_view key, uint32_t n_layers) {
  const std::string name = note(key);
  CERA_TRY(const auto values, file_.get_uints(name, n_layers));
  std::vector<uint32_t> narrowed;
  for (const uint64_t value : values) {
    CERA_TRY(const uint32_t fits, narrow(value, name));
    narrowed.push_back(fits);
  }
  return narrowed;
}

bool KeyReader::is_neutral(std::string_view key, double neutral) {
  const auto entry = file_.metadata().find(note(key));
  return entry == file_.metadata().end() || holds_only(entry->second.value, neutral);
}

std::vector<std::string> KeyReader::unread() const {
  std::vector<std::string> names;
  for (auto entry = file_.metadata().lower_bound(prefix_);
       entry != file_.metadata().end() && entry->first.starts_with(prefix_); ++entry)
    if (!read_.contains(entry->first)) names.push_back(entry->first);
  return names;
}

}  // namespace cera
