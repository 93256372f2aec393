#pragma once
// GGUF files (versions 2 and 3, little-endian): read, validate, write. Trusts no byte: after open()
// succeeds every tensor lies inside its file, has sane dimensions and overlaps no other.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "quant/types.h"

namespace cera::gguf {

enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

std::string_view value_type_name(ValueType type);

struct Array;
/// Integers are widened to 64 bits and floats to double on reading; `type` of the Entry keeps the
/// width.
using Value =
    std::variant<uint64_t, int64_t, double, bool, std::string, std::shared_ptr<const Array>>;

/// One representation per element kind, so that a 150k-token vocabulary is no vector of variants.
struct Array {
  ValueType element_type;
  std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string>, std::vector<std::shared_ptr<const Array>>>
      values;
  size_t size() const;
};

struct Entry {
  ValueType type;
  Value value;
};

struct TensorInfo {
  std::string name;
  uint32_t type_id = 0;              // as in the file; may be a type that we cannot run
  std::vector<uint64_t> dimensions;  // ne0 (contiguous, the input width) first; 1 to 4 of them
  const std::byte* data = nullptr;  // size_bytes of them; owned by the File; alignment not promised
  uint64_t size_bytes = 0;
  uint64_t file_offset = 0;  // from the start of its own file
  uint32_t file_index = 0;   // which part of a split file
  uint64_t elements() const;
};

struct OpenOptions {
  bool use_mmap = true;        // false reads the tensor data into memory
  bool metadata_only = false;  // tensor data pointers stay null
};

/// Immutable after open; safe to read from any thread. Tensor data lives as long as the File.
class File {
 public:
  /// Opens `path` and, when its name ends in -00001-of-000NN.gguf, its sibling parts.
  static Result<std::shared_ptr<const File>> open(const std::string& path,
                                                  OpenOptions options = {});
  /// The same from bytes that the caller keeps alive (tests, fuzzers, embedded models).
  static Result<std::shared_ptr<const File>> from_bytes(std::span<const std::byte> bytes,
                                                        std::string label = "memory");

  const std::string& path() const;
  uint32_t version() const;
  uint64_t size_bytes() const;  // all parts
  const std::map<std::string, Entry, std::less<>>& metadata() const;
  std::span<const TensorInfo> tensors() const;  // in file order
  const TensorInfo* find_tensor(std::string_view name) const;

  // Typed getters. get_*: a missing key is an error (not_found) that names it. find_*: a missing
  // key is an empty optional. In both a value of the wrong kind is an error that names the key,
  // what it is and what was wanted. Integers convert between widths and signs when the value fits;
  // an integer is accepted as a float; 0 and 1 are not accepted as bool.
  bool has(std::string_view key) const;
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::optional<uint64_t>> find_uint(std::string_view key) const;
  Result<std::optional<int64_t>> find_int(std::string_view key) const;
  Result<std::optional<double>> find_float(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> find_string(std::string_view key) const;
  /// A scalar repeated n times, or an array of exactly n (per-layer settings).
  Result<std::vector<uint64_t>> get_uints(std::string_view key, size_t n) const;
  Result<std::span<const std::string>> get_strings(std::string_view key) const;
  Result<std::vector<int64_t>> get_int_array(std::string_view key) const;
  Result<std::vector<double>> get_float_array(std::string_view key) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Writes version 3, entries and tensors in the order they were given; setting a key again replaces
/// its value. The alignment is that of the key general.alignment, or 32. Tensor bytes are copied on
/// write(), not before: keep them alive.
class Writer {
 public:
  void set(std::string key, Value value, ValueType type);
  void set_uint(std::string key, uint32_t value);
  void set_float(std::string key, float value);
  void set_bool(std::string key, bool value);
  void set_string(std::string key, std::string value);
  void set_strings(std::string key, std::vector<std::string> values);
  void set_ints(std::string key, std::vector<int32_t> values);
  void set_floats(std::string key, std::vector<float> values);
  /// dimensions: ne0 first. The byte count must match type and dimensions (checked in bytes() and
  /// write()).
  void add_tensor(std::string name, TensorType type, std::vector<uint64_t> dimensions,
                  std::span<const std::byte> data);
  Result<std::vector<std::byte>> bytes() const;
  Result<void> write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<uint64_t> dimensions;
    std::span<const std::byte> data;
  };
  Result<void> check_tensors() const;
  /// Everything before the tensor data.
  Result<std::vector<std::byte>> header(uint64_t alignment) const;
  /// Calls use(pieces) with the parts of the file in order.
  template <class Use>
  Result<void> with_pieces(Use use) const;

  std::vector<std::pair<std::string, Entry>> entries_;
  std::vector<Tensor> tensors_;
};

}  // namespace cera::gguf
