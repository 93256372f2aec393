#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "gguf/exercise.h"
#include "gguf/sample.h"

namespace cera::gguf {
namespace {

const float one_float = 1.5f;
const std::span<const std::byte> four_bytes = std::as_bytes(std::span(&one_float, 1));

TEST(Writer, SameCallsSameBytes) {
  EXPECT_EQ(sample_bytes(), sample_bytes());
}

TEST(Writer, WhatIsReadIsWrittenTheSame) {
  const auto bytes = sample_bytes();
  const auto file = File::from_bytes(bytes).value();
  EXPECT_EQ(file->metadata().size(), 27u);
  exercise(*file, bytes);
}

TEST(Writer, FileHoldsTheBytes) {
  Writer writer;
  SampleTensors tensors;
  add_sample_metadata(writer);
  tensors.add_to(writer);
  const std::string path = testing::TempDir() + "cera-writer.gguf";
  ASSERT_TRUE(writer.write(path).has_value());
  const auto bytes = writer.bytes().value();
  EXPECT_EQ(std::filesystem::file_size(path), bytes.size());
  const auto from_memory = File::from_bytes(bytes).value();
  EXPECT_TRUE(same_contents(*File::open(path).value(), *from_memory));
  std::filesystem::remove(path);
  EXPECT_EQ(writer.write(testing::TempDir() + "no/such/folder.gguf").error().code, ErrorCode::io);
}

TEST(Writer, SettingAgainReplaces) {
  Writer writer;
  writer.set_uint("a", 1);
  writer.set_uint("b", 2);
  writer.set_string("a", "three");
  const auto bytes = writer.bytes().value();
  const auto file = File::from_bytes(bytes).value();
  EXPECT_EQ(file->metadata().size(), 2u);
  EXPECT_EQ(file->get_string("a"), "three");
}

TEST(Writer, AlignmentIsHonoured) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    Writer writer;
    writer.set_uint("general.alignment", alignment);
    writer.add_tensor("a", TensorType::f32, {1}, four_bytes);
    writer.add_tensor("b", TensorType::f32, {1}, four_bytes);
    const auto bytes = writer.bytes().value();
    EXPECT_EQ(bytes.size() % alignment, 0u);
    const auto file = File::from_bytes(bytes).value();
    EXPECT_EQ(file->tensors()[1].file_offset - file->tensors()[0].file_offset, alignment);
    EXPECT_TRUE(std::ranges::equal(std::span(file->tensors()[1].data, 4), four_bytes));
  }
  Writer writer;
  writer.set_uint("general.alignment", 24);
  EXPECT_EQ(writer.bytes().error().code, ErrorCode::invalid_argument);
}

void expect_refused(const Writer& writer, std::string_view part) {
  const auto bytes = writer.bytes();
  ASSERT_FALSE(bytes.has_value()) << part;
  EXPECT_NE(bytes.error().text().find(part), std::string::npos) << bytes.error().text();
}

TEST(Writer, ValuesMustFitTheirTypes) {
  const std::pair<Value, ValueType> bad[] = {
      {Value(uint64_t{256}), ValueType::u8},
      {Value(int64_t{-129}), ValueType::i8},
      {Value(int64_t{1}), ValueType::u8},
      {Value(uint64_t{1}), ValueType::i32},
      {Value(uint64_t{1} << 32), ValueType::u32},
      {Value(1e39), ValueType::f32},
      {Value(1.0), ValueType::u32},
      {Value(true), ValueType::u8},
      {Value(uint64_t{1}), ValueType::boolean},
      {Value(std::string("x")), ValueType::u8},
      {Value(true), ValueType::string},
      {Value(true), ValueType::array},
      {Value(true), ValueType(13)},
      {Value(std::shared_ptr<const Array>()), ValueType::array},
      {array_value(ValueType::u8, std::vector<uint64_t>{1, 256}), ValueType::array},
      {array_value(ValueType::u8, std::vector<std::string>{"x"}), ValueType::array},
      {array_value(ValueType::array, std::vector<uint64_t>{1}), ValueType::array},
      {array_value(ValueType(99), std::vector<uint64_t>{1}), ValueType::array},
      {array_value(ValueType::array, std::vector<std::shared_ptr<const Array>>{nullptr}),
       ValueType::array},
  };
  for (const auto& [value, type] : bad) {
    Writer writer;
    writer.set("some.key", value, type);
    expect_refused(writer, "'some.key'");
  }
}

TEST(Writer, NonFiniteFloatsAreWrittenAsTheyAre) {
  Writer writer;
  writer.set_float("inf", INFINITY);
  writer.set_float("nan", NAN);
  const auto bytes = writer.bytes().value();
  const auto file = File::from_bytes(bytes).value();
  EXPECT_EQ(file->get_float("inf"), INFINITY);
  EXPECT_TRUE(std::isnan(file->get_float("nan").value()));
}

TEST(Writer, NamesAreChecked) {
  for (const std::string& name : {std::string(), std::string("\xff"), std::string(65537, 'x')}) {
    Writer keys, tensors;
    keys.set_uint(name, 1);
    expect_refused(keys, "key");
    tensors.add_tensor(name, TensorType::f32, {1}, four_bytes);
    expect_refused(tensors, "tensor");
  }
}

TEST(Writer, TensorsAreChecked) {
  const auto one = [](std::vector<uint64_t> dimensions, TensorType type = TensorType::f32) {
    Writer writer;
    writer.add_tensor("w", type, std::move(dimensions), four_bytes);
    return writer;
  };
  EXPECT_TRUE(one({1}).bytes().has_value());
  expect_refused(one({}), "'w'");
  expect_refused(one({1, 1, 1, 1, 1}), "'w'");
  expect_refused(one({2}), "need 8");
  expect_refused(one({0}), "dimension of 0");
  expect_refused(one({16}, TensorType::q4_0), "not a multiple of 32");
  expect_refused(one({uint64_t{1} << 63, 2}), "2^64");
  Writer twice = one({1});
  twice.add_tensor("w", TensorType::f32, {1}, four_bytes);
  expect_refused(twice, "twice");
}

}  // namespace
}  // namespace cera::gguf
