#pragma once
// What an open File holds.

#include "base/mapped_file.h"
#include "gguf/gguf.h"

namespace cera::gguf {

struct Contents {
  std::string path;
  uint32_t version = 0;
  uint64_t size_bytes = 0;
  std::vector<MappedFile> files;  // empty for bytes of the caller and for metadata alone
  std::map<std::string, Entry, std::less<>> metadata;  // of the first part
  std::vector<TensorInfo> tensors;
  std::vector<uint32_t> by_name;  // indices of tensors, sorted by name
  uint32_t n_parts = 0;

  /// Appends the tensors of the next part.
  void add_tensors(std::vector<TensorInfo> more);
  /// Fills by_name; a name that appears twice is an error.
  Result<void> index_names();
};

struct File::Impl : Contents {};

}  // namespace cera::gguf
