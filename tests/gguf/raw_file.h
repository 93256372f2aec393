#pragma once
// GGUF bytes put together by hand, right or wrong.

#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace cera::gguf {

class RawFile {
 public:
  explicit RawFile(uint64_t n_tensors = 0, uint64_t n_entries = 0, uint32_t version = 3) {
    raw("GGUF").number(version).number(n_tensors).number(n_entries);
  }

  template <class T>
  RawFile& number(T value) {
    const auto* start = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), start, start + sizeof(T));
    return *this;
  }
  RawFile& raw(std::string_view text) {
    const auto* start = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), start, start + text.size());
    return *this;
  }
  RawFile& text(std::string_view text) { return number(uint64_t{text.size()}).raw(text); }
  RawFile& key(std::string_view name, ValueType type) { return text(name).number(type); }
  RawFile& array(ValueType element_type, uint64_t n) { return number(element_type).number(n); }
  template <class T>
  RawFile& entry(std::string_view name, ValueType type, T value) {
    return key(name, type).number(value);
  }
  RawFile& tensor(std::string_view name, std::initializer_list<uint64_t> dimensions, uint32_t type,
                  uint64_t offset) {
    text(name).number(uint32_t(dimensions.size()));
    for (const uint64_t dimension : dimensions) number(dimension);
    return number(type).number(offset);
  }
  RawFile& zeros(size_t n) {
    bytes_.resize(bytes_.size() + n);
    return *this;
  }
  RawFile& pad(size_t alignment = 32) {
    return zeros((alignment - size() % alignment) % alignment);
  }

  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  Result<std::shared_ptr<const File>> open() const { return File::from_bytes(bytes_, "raw"); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace cera::gguf
