#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "base/checked.h"

namespace cera {
namespace {

constexpr std::align_val_t buffer_alignment{64};

std::string reason(int error) {
  return std::generic_category().message(error);
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

/// Reads exactly `size` bytes; fewer in the file are an error.
Result<void> read_all(int fd, std::byte* to, size_t size, const std::string& path) {
  constexpr size_t largest_read = size_t{1} << 30;  // the kernel refuses more than 2 GiB at a time
  for (size_t at = 0; at < size;) {
    const ssize_t n = ::pread(fd, to + at, std::min(size - at, largest_read), off_t(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::io, path, "cannot read: {}", reason(errno));
    if (n == 0) return fail(ErrorCode::io, path, "the file shrank while it was read");
    at += size_t(n);
  }
  return {};
}

}  // namespace

void MappedFile::Release::operator()(const std::byte* data) const {
  auto* start = const_cast<std::byte*>(data);
  if (mapped) {
    ::munmap(start, size);
  } else {
    ::operator delete(start, buffer_alignment);
  }
}

Result<MappedFile> MappedFile::open(const std::string& path, bool use_mmap) {
  // O_NONBLOCK: opening a named pipe must not hang; it has no effect on regular files.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const ErrorCode code =
        errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::io;
    return fail(code, path, "cannot open: {}", reason(errno));
  }
  struct stat status;
  if (::fstat(file.fd, &status) != 0)
    return fail(ErrorCode::io, path, "cannot examine: {}", reason(errno));
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::io, path, "is not a regular file");
  const auto size = checked_cast<size_t>(status.st_size);
  if (!size) return fail(ErrorCode::io, path, "is too large for this system");

  MappedFile result;
  result.size_ = *size;
  if (*size == 0) return result;
  if (use_mmap) {
    void* start = ::mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (start == MAP_FAILED)
      return fail(ErrorCode::io, path, "cannot map: {} (reading without mmap may work)",
                  reason(errno));
    result.data_ = {static_cast<const std::byte*>(start), Release{*size, true}};
    return result;
  }
  void* start = ::operator new(*size, buffer_alignment, std::nothrow);
  if (!start) return fail(ErrorCode::out_of_memory, path, "no memory for its {} bytes", *size);
  result.data_ = {static_cast<const std::byte*>(start), Release{*size, false}};
  CERA_CHECK(read_all(file.fd, static_cast<std::byte*>(start), *size, path));
  return result;
}

}  // namespace cera
