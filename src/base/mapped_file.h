#pragma once
// The bytes of a file, mapped or read into memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace cera {

/// Read-only bytes of a whole regular file. Move-only; the bytes live as long as the object and
/// start on a 64-byte boundary. Mapped bytes follow the file: whoever truncates it meanwhile ends
/// the process (SIGBUS).
class MappedFile {
 public:
  /// use_mmap false reads everything into memory instead.
  static Result<MappedFile> open(const std::string& path, bool use_mmap = true);

  MappedFile() = default;
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  bool is_mapped() const { return data_ && data_.get_deleter().mapped; }

 private:
  struct Release {
    size_t size;
    bool mapped;
    void operator()(const std::byte* data) const;
  };
  std::unique_ptr<const std::byte[], Release> data_;
  size_t size_ = 0;
};

}  // namespace cera
