#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <system_error>

namespace cera {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  constexpr size_t largest_write = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), largest_write));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::io, path, "cannot write: {}", reason(errno));
    bytes = bytes.subspan(size_t(n));
  }
  return {};
}

Result<void> write_pieces(const std::string& path,
                          std::span<const std::span<const std::byte>> pieces) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return fail(ErrorCode::io, path, "cannot create: {}", reason(errno));
  Result<void> result;
  for (const auto piece : pieces) {
    result = write_all(fd, piece, path);
    if (!result) break;
  }
  // The contents must reach the disk before the name does.
  if (result && ::fsync(fd) != 0)
    result = fail(ErrorCode::io, path, "cannot write: {}", reason(errno));
  if (::close(fd) != 0 && result)
    result = fail(ErrorCode::io, path, "cannot write: {}", reason(errno));
  return result;
}

}  // namespace

Result<void> write_file_atomically(const std::string& path,
                                   std::span<const std::span<const std::byte>> pieces) {
  static std::atomic<uint32_t> counter = 0;
  const std::string temporary = fmt::format("{}.{}-{}.tmp", path, ::getpid(), counter++);
  auto result = write_pieces(temporary, pieces);
  if (result && std::rename(temporary.c_str(), path.c_str()) != 0)
    result = fail(ErrorCode::io, path, "cannot replace: {}", reason(errno));
  if (!result) ::unlink(temporary.c_str());
  return result;
}

}  // namespace cera
