#pragma once
// A small file with every kind of value and several tensors.

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "gguf/gguf.h"

namespace cera::gguf {

template <class Elements>
Value array_value(ValueType element_type, Elements elements) {
  auto array = std::make_shared<Array>();
  array->element_type = element_type;
  array->values = std::move(elements);
  return std::shared_ptr<const Array>(std::move(array));
}

inline void add_sample_metadata(Writer& writer) {
  using Unsigned = std::vector<uint64_t>;
  using Signed = std::vector<int64_t>;
  using Pointer = std::shared_ptr<const Array>;
  writer.set_string("general.architecture", "sample");
  writer.set("a.u8", Value(uint64_t{255}), ValueType::u8);
  writer.set("a.i8", Value(int64_t{-128}), ValueType::i8);
  writer.set("a.u16", Value(uint64_t{65535}), ValueType::u16);
  writer.set("a.i16", Value(int64_t{-32768}), ValueType::i16);
  writer.set_uint("a.u32", 4000000000u);
  writer.set("a.i32", Value(int64_t{-2000000000}), ValueType::i32);
  writer.set("a.u64", Value(uint64_t{18000000000000000000u}), ValueType::u64);
  writer.set("a.i64", Value(int64_t{-9000000000000000000}), ValueType::i64);
  writer.set_float("a.f32", 0.1f);
  writer.set("a.f64", Value(0.1), ValueType::f64);
  writer.set_bool("a.true", true);
  writer.set_bool("a.false", false);
  writer.set_string("a.empty", "");
  writer.set_strings("b.strings",
                     {"", "short", "a string longer than fifteen bytes", "\xff\x80 odd"});
  writer.set_ints("b.i32", {1, -2, 3});
  writer.set_floats("b.f32", {0.5f, -1e30f});
  writer.set("b.u8", array_value(ValueType::u8, Unsigned{0, 255}), ValueType::array);
  writer.set("b.i8", array_value(ValueType::i8, Signed{-128, 127}), ValueType::array);
  writer.set("b.u16", array_value(ValueType::u16, Unsigned{1, 65535}), ValueType::array);
  writer.set("b.i16", array_value(ValueType::i16, Signed{-32768}), ValueType::array);
  writer.set("b.u32", array_value(ValueType::u32, Unsigned{4000000000u}), ValueType::array);
  writer.set("b.u64", array_value(ValueType::u64, Unsigned{~uint64_t{0}}), ValueType::array);
  writer.set("b.i64", array_value(ValueType::i64, Signed{-1}), ValueType::array);
  writer.set("b.f64", array_value(ValueType::f64, std::vector<double>{0.25}), ValueType::array);
  writer.set("b.bools", array_value(ValueType::boolean, std::vector<bool>{true, false, true}),
             ValueType::array);
  const auto inner = std::get<Pointer>(array_value(ValueType::i32, Signed{7, 8}));
  const auto empty = std::get<Pointer>(array_value(ValueType::string, std::vector<std::string>{}));
  writer.set("b.nested", array_value(ValueType::array, std::vector<Pointer>{inner, empty}),
             ValueType::array);
}

/// One tensor of each of our types, with bytes that differ.
class SampleTensors {
 public:
  void add_to(Writer& writer, std::string_view prefix = "") {
    uint64_t rows = 1;
    for (const TypeInfo& type : all_types()) {
      const uint64_t width = std::max<uint64_t>(type.block_size, 3);
      auto& bytes = storage_.emplace_back(width / type.block_size * type.block_bytes * rows);
      for (std::byte& byte : bytes) byte = std::byte(next_ += 37);
      writer.add_tensor(fmt::format("{}{}.weight", prefix, type.name), type.type, {width, rows},
                        bytes);
      rows = rows % 3 + 1;
    }
  }

 private:
  std::deque<std::vector<std::byte>> storage_;
  uint8_t next_ = 0;
};

inline std::vector<std::byte> sample_bytes() {
  Writer writer;
  SampleTensors tensors;
  add_sample_metadata(writer);
  tensors.add_to(writer);
  return writer.bytes().value();
}

}  // namespace cera::gguf
