#include "gguf/cursor.h"

#include "base/utf8.h"

namespace cera::gguf {

std::string quoted(std::string_view text) {
  constexpr size_t longest = 64;
  std::string out = "'";
  for (size_t i = 0; i < text.size();) {
    if (i >= longest) {
      out += "…";
      break;
    }
    const size_t n = utf8_sequence_bytes(text.substr(i));
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool control = n == 1 && (lead < 0x20 || lead == 0x7f);
    if (n == 0 || control) {
      out += fmt::format("\\x{:02x}", lead);
    } else {
      out += text.substr(i, n);
    }
    i += n == 0 ? 1 : n;
  }
  return out + "'";
}

Result<std::string_view> Cursor::read_string(std::string_view what) {
  CERA_TRY(const uint64_t length, read<uint64_t>(what));
  CERA_CHECK(need(length, what));
  return std::string_view(reinterpret_cast<const char*>(take(length)), length);
}

std::unexpected<Error> Cursor::too_short(uint64_t n_bytes, std::string_view what) const {
  return malformed(
      "{} at byte {} needs {} bytes, but only {} are left: the file is damaged or incomplete", what,
      at_, n_bytes, left());
}

std::unexpected<Error> Cursor::too_large(std::string_view what) const {
  return malformed("{} at byte {} would need more memory than a file of {} bytes may ask for", what,
                   at_, bytes_.size());
}

}  // namespace cera::gguf
