#pragma once
// UTF-8 validation as the Unicode standard defines it: no overlong forms, no surrogates, nothing
// above U+10FFFF.

#include <cstddef>
#include <string_view>

namespace cera {

/// Length in bytes of the well-formed sequence that `text` starts with; 0 when it starts with none.
constexpr size_t utf8_sequence_bytes(std::string_view text) {
  const auto at = [text](size_t i) {
    return i < text.size() ? unsigned(static_cast<unsigned char>(text[i])) : 0u;
  };
  const auto tail = [at](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned lead = at(0), second = at(1);
  if (text.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool overlong = lead == 0xe0 && second < 0xa0, surrogate = lead == 0xed && second > 0x9f;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool overlong = lead == 0xf0 && second < 0x90, beyond = lead == 0xf4 && second > 0x8f;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

constexpr bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t n = utf8_sequence_bytes(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

}  // namespace cera
