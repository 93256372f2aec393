#pragma once
// Arithmetic on sizes that come from outside: no wrap goes unnoticed.

#include <concepts>
#include <optional>
#include <type_traits>

namespace cera {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// The value as another integer type, or nothing when it does not fit.
template <std::integral To, std::integral From>
constexpr std::optional<To> checked_cast(From value) {
  To r;
  if (__builtin_add_overflow(value, From{0}, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
constexpr T div_up(T a, T b) {
  return a / b + (a % b != 0);
}

template <std::integral T>
constexpr T round_up(T a, T multiple) {
  return div_up(a, multiple) * multiple;
}

}  // namespace cera
