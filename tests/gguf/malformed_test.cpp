// Files that break one rule each. The answer is an error that names the key or tensor and the
// place.

#include <gtest/gtest.h>

#include "gguf/exercise.h"
#include "gguf/raw_file.h"
#include "gguf/sample.h"

namespace cera::gguf {
namespace {

constexpr uint64_t huge = uint64_t{1} << 63;
constexpr uint32_t f32_id = 0, q4_0_id = 2, q4_k_id = 12;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

void expect_refusal(const RawFile& file, std::initializer_list<std::string_view> parts,
                    ErrorCode code = ErrorCode::malformed) {
  const auto opened = file.open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, code);
  EXPECT_EQ(opened.error().where, "raw");
  for (const std::string_view part : parts)
    EXPECT_TRUE(contains(opened.error().message, part)) << part << " in: " << opened.error().text();
}

/// A file of one tensor whose data is n bytes.
RawFile one_tensor(std::initializer_list<uint64_t> dimensions, uint32_t type, uint64_t offset = 0,
                   size_t n_bytes = 4096) {
  RawFile file(1, 0);
  file.tensor("w", dimensions, type, offset).pad().zeros(n_bytes);
  return file;
}

TEST(Malformed, NotAFile) {
  for (const std::string_view text : {"", "G", "GGU", "GGML\3\0\0\0", "gguf"}) {
    const auto opened = File::from_bytes(std::as_bytes(std::span(text.data(), text.size())), "raw");
    ASSERT_FALSE(opened.has_value());
    EXPECT_TRUE(contains(opened.error().message, "not a GGUF file"));
  }
}

TEST(Malformed, Versions) {
  expect_refusal(RawFile(0, 0, 1), {"version 1", "obsolete"}, ErrorCode::unsupported);
  expect_refusal(RawFile(0, 0, 4), {"version 4"}, ErrorCode::unsupported);
  expect_refusal(RawFile(0, 0, 0), {"version 0"}, ErrorCode::unsupported);
  expect_refusal(RawFile(0, 0, 0x03000000), {"big-endian"}, ErrorCode::unsupported);
  expect_refusal(RawFile(0, 0, 0x02000000), {"big-endian"}, ErrorCode::unsupported);
  EXPECT_TRUE(RawFile(0, 0, 2).open().has_value());
  EXPECT_TRUE(RawFile(0, 0, 3).open().has_value());
}

TEST(Malformed, CountsBeyondTheFile) {
  for (const uint64_t n : {huge, ~uint64_t{0}, uint64_t{1000}}) {
    expect_refusal(RawFile(0, n).zeros(64), {"metadata entries"});
    expect_refusal(RawFile(n, 0).zeros(64), {"tensors"});
  }
}

TEST(Malformed, StringsBeyondTheFile) {
  for (const uint64_t n : {huge, ~uint64_t{0}, ~uint64_t{0} - 8, uint64_t{100}}) {
    expect_refusal(RawFile(0, 1).number(n).zeros(40), {"metadata key", "byte 32", "40 are left"});
    expect_refusal(RawFile(0, 1).key("k", ValueType::string).number(n).zeros(40),
                   {"'k'", "byte 45", "40 are left"});
    RawFile array(0, 1);
    array.key("k", ValueType::array).array(ValueType::string, 1).number(n).zeros(40);
    expect_refusal(array, {"'k'", "byte 57"});
    expect_refusal(RawFile(1, 0).number(n).zeros(40), {"tensor name", "byte 32"});
  }
}

TEST(Malformed, ArraysBeyondTheFile) {
  for (const uint64_t n : {huge, ~uint64_t{0}, huge / 4, uint64_t{101}}) {
    for (uint32_t type = 0; type < 13; ++type) {
      RawFile file(0, 1);
      file.key("k", ValueType::array).array(ValueType(type), n).zeros(100);
      expect_refusal(file, {"'k'", "claims an array", "byte 37", "100 bytes are left"});
    }
  }
}

TEST(Malformed, NestingHasALimit) {
  for (int depth = 1; depth < 8; ++depth) {
    RawFile file(0, 1);
    file.key("k", ValueType::array);
    for (int i = 1; i < depth; ++i) file.array(ValueType::array, 1);
    file.array(ValueType::u8, 1).number(uint8_t{5});
    if (depth <= 4) {
      EXPECT_TRUE(file.open().has_value()) << depth;
    } else {
      expect_refusal(file, {"'k'", "nests arrays"});
    }
  }
  RawFile deep(0, 1);
  deep.key("k", ValueType::array);
  for (int i = 0; i < 100000; ++i) deep.array(ValueType::array, 1);
  expect_refusal(deep, {"'k'", "nests arrays"});
}

TEST(Malformed, Keys) {
  expect_refusal(RawFile(0, 1).entry("", ValueType::u8, uint8_t{1}).zeros(8), {"empty", "byte 24"});
  expect_refusal(RawFile(0, 1).entry(std::string(65537, 'k'), ValueType::u8, uint8_t{1}),
                 {"65537", "byte 24"});
  EXPECT_TRUE(
      RawFile(0, 1).entry(std::string(65536, 'k'), ValueType::u8, uint8_t{1}).open().has_value());
  expect_refusal(RawFile(0, 1).entry("bad\xff", ValueType::u8, uint8_t{1}),
                 {"'bad\\xff'", "UTF-8"});
  RawFile twice(0, 2);
  twice.entry("key.one", ValueType::u8, uint8_t{1}).entry("key.one", ValueType::u8, uint8_t{2});
  expect_refusal(twice, {"'key.one'", "twice", "byte 44"});
}

TEST(Malformed, HostileNamesArePrintedHarmlessly) {
  RawFile file(0, 1);
  file.entry("a\x1b[31m\n", ValueType::boolean, uint8_t{2});
  expect_refusal(file, {"'a\\x1b[31m\\x0a'"});
  RawFile long_key(0, 1);
  long_key.entry(std::string(5000, 'k'), ValueType::boolean, uint8_t{2});
  const auto opened = long_key.open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_LT(opened.error().message.size(), 300u);
}

TEST(Malformed, ValueTypes) {
  for (const uint32_t type : {13u, 14u, 255u, 0x80000000u, 0xffffffffu}) {
    expect_refusal(RawFile(0, 1).entry("k", ValueType(type), uint64_t{0}),
                   {"'k'", "unknown value type", "byte 33"});
    RawFile array(0, 1);
    array.key("k", ValueType::array).array(ValueType(type), 1).zeros(64);
    expect_refusal(array, {"'k'", "unknown value type", "byte 37"});
  }
}

TEST(Malformed, Bools) {
  expect_refusal(RawFile(0, 1).entry("k", ValueType::boolean, uint8_t{2}),
                 {"'k'", "bool", "byte 37"});
  RawFile array(0, 1);
  array.key("k", ValueType::array)
      .array(ValueType::boolean, 3)
      .number(uint8_t{0})
      .number(uint8_t{1});
  array.number(uint8_t{255});
  expect_refusal(array, {"'k'", "bool", "byte 51"});
}

TEST(Malformed, Alignment) {
  const auto with_alignment = [](auto value, ValueType type) {
    RawFile file(0, 1);
    file.entry("general.alignment", type, value).pad(uint64_t{1} << 12);
    return file;
  };
  for (const uint32_t bad : {0u, 1u, 3u, 4u, 24u, 1u << 21, 1u << 31})
    expect_refusal(with_alignment(bad, ValueType::u32), {"general.alignment", "power of two"});
  expect_refusal(with_alignment(uint64_t{1} << 40, ValueType::u64), {"general.alignment"});
  expect_refusal(with_alignment(int32_t{-32}, ValueType::i32), {"general.alignment"});
  expect_refusal(with_alignment(32.0f, ValueType::f32), {"general.alignment", "f32"});
  for (const uint32_t good : {8u, 16u, 32u, 4096u})
    EXPECT_TRUE(with_alignment(good, ValueType::u32).open().has_value()) << good;
  EXPECT_TRUE(with_alignment(uint8_t{64}, ValueType::u8).open().has_value());
  EXPECT_TRUE(with_alignment(int64_t{64}, ValueType::i64).open().has_value());
}

TEST(Malformed, AlignmentGovernsTheData) {
  RawFile file(2, 1);
  file.entry("general.alignment", ValueType::u32, uint32_t{64});
  file.tensor("a", {3}, f32_id, 0).tensor("b", {1}, f32_id, 64).pad(64).zeros(64);
  file.number(1.5f);
  const auto opened = file.open();
  ASSERT_TRUE(opened.has_value()) << opened.error().text();
  const TensorInfo* b = (*opened)->find_tensor("b");
  EXPECT_EQ(b->file_offset % 64, 0u);
  float value;
  std::memcpy(&value, b->data, sizeof value);
  EXPECT_EQ(value, 1.5f);
}

TEST(Malformed, Rank) {
  expect_refusal(one_tensor({}, f32_id), {"'w'", "0 dimensions", "byte 24"});
  expect_refusal(one_tensor({1, 1, 1, 1, 1}, f32_id), {"'w'", "5 dimensions"});
  expect_refusal(one_tensor({1, 1, 1, 1, 1, 1, 1, 1, 1}, f32_id), {"'w'", "9 dimensions"});
  RawFile file(1, 0);
  file.text("w").number(0xffffffffu).zeros(4096);
  expect_refusal(file, {"'w'", "4294967295 dimensions"});
  EXPECT_TRUE(one_tensor({1, 2, 3, 4}, f32_id).open().has_value());
}

TEST(Malformed, Products) {
  expect_refusal(one_tensor({huge, 2}, f32_id), {"'w'", "2^64 elements"});
  expect_refusal(one_tensor({uint64_t{1} << 32, uint64_t{1} << 32}, f32_id), {"'w'", "2^64"});
  // 2^42 + 1 by 2^22 wraps to the small number 2^22.
  expect_refusal(one_tensor({(uint64_t{1} << 42) + 1, uint64_t{1} << 22}, f32_id), {"'w'", "2^64"});
  // 2^62 elements of 4 bytes wrap to 0 bytes; a little more to a few.
  expect_refusal(one_tensor({huge / 2}, f32_id), {"'w'", "2^64 bytes"});
  expect_refusal(one_tensor({huge / 2 + 8}, f32_id), {"'w'", "2^64 bytes"});
  expect_refusal(one_tensor({0}, f32_id), {"'w'", "dimension of 0"});
  expect_refusal(one_tensor({4, 0, huge, huge}, f32_id), {"'w'", "dimension of 0"});
}

TEST(Malformed, RowsOfWholeBlocks) {
  expect_refusal(one_tensor({33}, q4_0_id), {"'w'", "33", "Q4_0", "32"});
  expect_refusal(one_tensor({128, 2}, q4_k_id), {"'w'", "128", "Q4_K", "256"});
  expect_refusal(one_tensor({100}, 17), {"'w'", "IQ2_XS"});
  EXPECT_TRUE(one_tensor({256, 2}, q4_k_id).open().has_value());
  EXPECT_TRUE(one_tensor({256, 2}, 17).open().has_value());  // a type that we know but do not run
}

TEST(Malformed, UnknownTensorTypes) {
  for (const uint32_t type : {4u, 5u, 43u, 1000u, 0xffffffffu})
    expect_refusal(one_tensor({32}, type), {"'w'", "unknown type", std::to_string(type)});
}

TEST(Malformed, Offsets) {
  expect_refusal(one_tensor({4}, f32_id, 8), {"'w'", "offset 8", "alignment 32"});
  expect_refusal(one_tensor({4}, f32_id, 4096), {"'w'", "beyond the end"});
  expect_refusal(one_tensor({4}, f32_id, 4096 * 4), {"'w'", "beyond the end"});
  expect_refusal(one_tensor({1025}, f32_id, 0), {"'w'", "beyond the end", "4100 bytes"});
  expect_refusal(one_tensor({4}, f32_id, ~uint64_t{31}), {"'w'", "beyond the end"});  // wraps
  expect_refusal(one_tensor({4}, f32_id, ~uint64_t{63}), {"'w'", "beyond the end"});
  EXPECT_TRUE(one_tensor({1024}, f32_id, 0).open().has_value());
  EXPECT_TRUE(one_tensor({8}, f32_id, 4096 - 32).open().has_value());
  // Without the padding before the data there is nothing for it.
  expect_refusal(RawFile(1, 0).tensor("w", {1}, f32_id, 0), {"'w'", "beyond the end"});
}

TEST(Malformed, Overlaps) {
  const auto two = [](uint64_t first, uint64_t second) {
    RawFile file(2, 0);
    file.tensor("first", {16}, f32_id, first)
        .tensor("second", {16}, f32_id, second)
        .pad()
        .zeros(512);
    return file;
  };
  expect_refusal(two(0, 0), {"'first'", "'second'", "overlap"});
  expect_refusal(two(0, 32), {"'first'", "'second'", "overlap"});
  expect_refusal(two(128, 96), {"'first'", "'second'", "overlap"});
  EXPECT_TRUE(two(0, 64).open().has_value());
  EXPECT_TRUE(two(64, 0).open().has_value());
  EXPECT_TRUE(two(0, 256).open().has_value());  // gaps do no harm
}

TEST(Malformed, TensorNames) {
  expect_refusal(RawFile(1, 0).tensor("", {4}, f32_id, 0).pad().zeros(64), {"empty tensor name"});
  expect_refusal(RawFile(1, 0).tensor("w\xc0\x80", {4}, f32_id, 0).pad().zeros(64), {"UTF-8"});
  RawFile twice(2, 0);
  twice.tensor("w", {4}, f32_id, 0).tensor("w", {4}, f32_id, 32).pad().zeros(64);
  expect_refusal(twice, {"'w'", "twice"});
}

TEST(Malformed, TruncatedAnywhere) {
  const auto bytes = sample_bytes();
  const auto whole = File::from_bytes(bytes);
  ASSERT_TRUE(whole.has_value()) << whole.error().text();
  uint64_t end = 0;
  for (const TensorInfo& tensor : (*whole)->tensors())
    end = std::max(end, tensor.file_offset + tensor.size_bytes);
  for (size_t n = 0; n < end; ++n) {
    // Memory of exactly this size, so that a sanitizer sees a read beyond it.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + long(n));
    const auto opened = File::from_bytes(cut, "cut");
    ASSERT_FALSE(opened.has_value()) << n;
    ASSERT_EQ(opened.error().code, ErrorCode::malformed) << n;
  }
}

TEST(Malformed, AnyByteChanged) {
  const auto bytes = sample_bytes();
  const size_t header = size_t(File::from_bytes(bytes).value()->tensors()[0].file_offset);
  size_t opened_count = 0, refused_count = 0;
  auto changed = bytes;
  for (size_t i = 0; i < header; ++i) {
    const auto original = uint8_t(bytes[i]);
    for (const int value :
         {0, 0xff, 0x7f, original ^ 1, original ^ 0x80, original + 1, original - 1}) {
      changed[i] = std::byte(value);
      if (const auto opened = File::from_bytes(changed)) {
        exercise(**opened, changed);
        ++opened_count;
      } else {
        ++refused_count;
      }
    }
    changed[i] = bytes[i];
  }
  EXPECT_GT(opened_count, 1000u);  // both ways were walked
  EXPECT_GT(refused_count, 1000u);
}

}  // namespace
}  // namespace cera::gguf
