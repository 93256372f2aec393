#include "gguf/split.h"

#include <charconv>

#include <fmt/format.h>

namespace cera::gguf {
namespace {

/// Takes five digits off the end.
std::optional<uint32_t> take_number(std::string_view& text) {
  constexpr size_t n_digits = 5;
  if (text.size() < n_digits) return std::nullopt;
  const std::string_view digits = text.substr(text.size() - n_digits);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + n_digits, value);
  if (error != std::errc{} || end != digits.data() + n_digits) return std::nullopt;
  text.remove_suffix(n_digits);
  return value;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view path) {
  if (!take_suffix(path, ".gguf")) return std::nullopt;
  const auto count = take_number(path);
  if (!count || !take_suffix(path, "-of-")) return std::nullopt;
  const auto number = take_number(path);
  if (!number || !take_suffix(path, "-")) return std::nullopt;
  if (*number < 1 || *number > *count) return std::nullopt;
  return SplitName{std::string(path), *number, *count};
}

std::string split_path(std::string_view prefix, uint64_t number, uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

}  // namespace cera::gguf
