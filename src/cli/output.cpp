#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include <fmt/format.h>

namespace cera::cli {

void print_error(std::string_view message) {
  fmt::print(stderr, "error: {}\n", one_line(message));
}

std::string one_line(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '\n')
      result += "\\n";
    else if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result;
}

Result<void> write_stdout(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    return fail(ErrorCode::io, "stdout", "cannot write: {}", std::strerror(errno));
  return {};
}

Result<void> flush_stdout() {
  if (std::fflush(stdout) != 0)
    return fail(ErrorCode::io, "stdout", "cannot write: {}", std::strerror(errno));
  return {};
}

Progress::Progress(std::string label)
    : label_(std::move(label)), on_terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::update(uint64_t done, uint64_t all, std::string_view note) {
  if (!on_terminal_) return;
  fmt::print(stderr, "\r\033[K{} {}/{}{}", label_, done, all, note);
  std::fflush(stderr);
  shown_ = true;
}

Progress::~Progress() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace cera::cli
