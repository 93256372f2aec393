#include <gtest/gtest.h>

#include <limits>

#include "gguf/exercise.h"
#include "gguf/raw_file.h"
#include "gguf/sample.h"

namespace cera::gguf {
namespace {

std::shared_ptr<const File> open_sample() {
  static const std::vector<std::byte> bytes = sample_bytes();
  return File::from_bytes(bytes, "sample").value();
}

TEST(Reader, EveryKindOfValue) {
  const auto file = open_sample();
  EXPECT_EQ(file->path(), "sample");
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->get_uint("a.u8"), 255u);
  EXPECT_EQ(file->get_int("a.i8"), -128);
  EXPECT_EQ(file->get_uint("a.u16"), 65535u);
  EXPECT_EQ(file->get_int("a.i16"), -32768);
  EXPECT_EQ(file->get_uint("a.u32"), 4000000000u);
  EXPECT_EQ(file->get_int("a.i32"), -2000000000);
  EXPECT_EQ(file->get_uint("a.u64"), 18000000000000000000u);
  EXPECT_EQ(file->get_int("a.i64"), -9000000000000000000);
  EXPECT_EQ(file->get_float("a.f32"), double(0.1f));
  EXPECT_EQ(file->get_float("a.f64"), 0.1);
  EXPECT_EQ(file->get_bool("a.true"), true);
  EXPECT_EQ(file->get_bool("a.false"), false);
  EXPECT_EQ(file->get_string("a.empty"), "");
  const auto strings = file->get_strings("b.strings");
  ASSERT_TRUE(strings.has_value());
  ASSERT_EQ(strings->size(), 4u);
  EXPECT_EQ((*strings)[2], "a string longer than fifteen bytes");
  EXPECT_EQ((*strings)[3], "\xff\x80 odd");  // vocabularies hold any bytes
  EXPECT_EQ(file->get_int_array("b.i32"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file->get_float_array("b.f32"), (std::vector<double>{0.5, double(-1e30f)}));
  EXPECT_EQ(file->metadata().at("b.bools").type, ValueType::array);
  const auto& nested =
      std::get<std::shared_ptr<const Array>>(file->metadata().at("b.nested").value);
  EXPECT_EQ(nested->element_type, ValueType::array);
  EXPECT_EQ(nested->size(), 2u);
}

TEST(Reader, Tensors) {
  const auto bytes = sample_bytes();
  const auto file = File::from_bytes(bytes).value();
  ASSERT_EQ(file->tensors().size(), all_types().size());
  EXPECT_EQ(file->size_bytes(), bytes.size());
  const TensorInfo* tensor = file->find_tensor("Q4_K.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type_id, uint32_t(TensorType::q4_k));
  EXPECT_EQ(tensor->dimensions[0], 256u);
  EXPECT_EQ(tensor->elements(), 256 * tensor->dimensions[1]);
  EXPECT_EQ(file->find_tensor(""), nullptr);
  EXPECT_EQ(file->find_tensor("Q4_K"), nullptr);
  EXPECT_EQ(file->find_tensor("zzz"), nullptr);
  exercise(*file, bytes);
}

TEST(Reader, Version2IsVersion3) {
  auto bytes = sample_bytes();
  const auto third = File::from_bytes(bytes).value();
  auto older = bytes;
  older[4] = std::byte{2};
  const auto second = File::from_bytes(older);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ((*second)->version(), 2u);
  EXPECT_TRUE(same_contents(**second, *third));
}

TEST(Reader, EmptyFile) {
  const auto file = RawFile(0, 0).open();
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE((*file)->metadata().empty());
  EXPECT_TRUE((*file)->tensors().empty());
  EXPECT_EQ((*file)->find_tensor("x"), nullptr);
}

/// What each getter answers for an integer: the value, or an error when it does not fit.
TEST(Getters, IntegersOfEveryWidth) {
  RawFile raw(0, 8);
  raw.entry("u8", ValueType::u8, uint8_t{200}).entry("i8", ValueType::i8, int8_t{100});
  raw.entry("u16", ValueType::u16, uint16_t{60000}).entry("i16", ValueType::i16, int16_t{30000});
  raw.entry("u32", ValueType::u32, 4000000000u).entry("i32", ValueType::i32, 2000000000);
  raw.entry("u64", ValueType::u64, uint64_t{1} << 62)
      .entry("i64", ValueType::i64, int64_t{1} << 62);
  const auto file = raw.open().value();
  const std::pair<const char*, uint64_t> wanted[] = {{"u8", 200},
                                                     {"i8", 100},
                                                     {"u16", 60000},
                                                     {"i16", 30000},
                                                     {"u32", 4000000000},
                                                     {"i32", 2000000000},
                                                     {"u64", uint64_t{1} << 62},
                                                     {"i64", uint64_t{1} << 62}};
  for (const auto& [key, value] : wanted) {
    EXPECT_EQ(file->get_uint(key), value) << key;
    EXPECT_EQ(file->get_int(key), int64_t(value)) << key;
    EXPECT_EQ(file->get_float(key), double(value)) << key;
    EXPECT_EQ(file->find_uint(key).value(), value) << key;
    EXPECT_EQ(file->get_uints(key, 3), std::vector<uint64_t>(3, value)) << key;
    EXPECT_FALSE(file->get_bool(key).has_value()) << key;
    EXPECT_FALSE(file->get_string(key).has_value()) << key;
    EXPECT_FALSE(file->get_int_array(key).has_value()) << key;
  }
}

TEST(Getters, IntegersThatDoNotFit) {
  RawFile raw(0, 5);
  raw.entry("minus", ValueType::i8, int8_t{-1});
  raw.entry("minimum", ValueType::i64, std::numeric_limits<int64_t>::min());
  raw.entry("maximum", ValueType::u64, ~uint64_t{0});
  raw.key("minuses", ValueType::array).array(ValueType::i32, 2).number(1).number(-2);
  raw.key("large", ValueType::array).array(ValueType::u64, 1).number(~uint64_t{0});
  const auto file = raw.open().value();
  for (const char* key : {"minus", "minimum"}) {
    const auto value = file->get_uint(key);
    ASSERT_FALSE(value.has_value());
    EXPECT_EQ(value.error().code, ErrorCode::malformed);
    EXPECT_NE(value.error().message.find(key), std::string::npos);
    EXPECT_FALSE(file->find_uint(key).has_value());  // wrong is not the same as missing
    EXPECT_FALSE(file->get_uints(key, 2).has_value());
  }
  EXPECT_FALSE(file->get_int("maximum").has_value());
  EXPECT_EQ(file->get_uint("maximum"), ~uint64_t{0});
  const auto minuses = file->get_uints("minuses", 2);
  ASSERT_FALSE(minuses.has_value());
  EXPECT_NE(minuses.error().message.find("element 1"), std::string::npos) << minuses.error().text();
  EXPECT_EQ(file->get_int_array("minuses"), (std::vector<int64_t>{1, -2}));
  EXPECT_FALSE(file->get_int_array("large").has_value());
}

TEST(Getters, MissingKeys) {
  const auto file = open_sample();
  const auto missing = file->get_uint("no.such.key");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().text(), "sample: metadata key 'no.such.key' is missing");
  EXPECT_EQ(file->get_strings("no.such.key").error().code, ErrorCode::not_found);
  EXPECT_EQ(file->get_uints("no.such.key", 1).error().code, ErrorCode::not_found);
  EXPECT_FALSE(file->find_uint("no.such.key").value().has_value());
  EXPECT_FALSE(file->find_string("no.such.key").value().has_value());
  EXPECT_FALSE(file->find_bool("no.such.key").value().has_value());
  EXPECT_FALSE(file->has("no.such.key"));
  EXPECT_TRUE(file->has("a.u8"));
}

TEST(Getters, WrongKindsSayWhatIsThereAndWhatIsNeeded) {
  const auto file = open_sample();
  EXPECT_EQ(file->get_uint("general.architecture").error().text(),
            "sample: metadata key 'general.architecture' is the string 'sample', but one unsigned "
            "integer is "
            "needed");
  EXPECT_EQ(file->get_string("b.i32").error().message,
            "metadata key 'b.i32' is an array of 3 i32, but one string is needed");
  EXPECT_EQ(file->get_strings("b.i32").error().message,
            "metadata key 'b.i32' is an array of 3 i32, but an array of strings is needed");
  EXPECT_EQ(file->get_uint("a.f32").error().code, ErrorCode::malformed);  // no float as an integer
  EXPECT_FALSE(file->get_bool("a.u8").has_value());
  EXPECT_FALSE(file->get_uint("a.true").has_value());
  EXPECT_FALSE(file->get_float("a.true").has_value());
  EXPECT_FALSE(file->find_float("a.empty").has_value());
  EXPECT_FALSE(file->get_int_array("b.f32").has_value());
  EXPECT_FALSE(file->get_int_array("b.bools").has_value());
  EXPECT_FALSE(file->get_float_array("b.strings").has_value());
  EXPECT_FALSE(file->get_int_array("b.nested").has_value());
}

TEST(Getters, Arrays) {
  const auto file = open_sample();
  EXPECT_EQ(file->get_float_array("b.i32"), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(file->get_uints("b.u16", 2), (std::vector<uint64_t>{1, 65535}));
  const auto wrong_length = file->get_uints("b.u16", 3);
  ASSERT_FALSE(wrong_length.has_value());
  EXPECT_EQ(wrong_length.error().message,
            "metadata key 'b.u16' is an array of 2 u16, but one unsigned integer or an array of 3 "
            "is needed");
  RawFile raw(0, 1);
  raw.key("none", ValueType::array).array(ValueType::i32, 0);
  const auto empty = raw.open().value();
  EXPECT_TRUE(empty->get_strings("none").value().empty());
  EXPECT_TRUE(empty->get_int_array("none").value().empty());
  EXPECT_TRUE(empty->get_uints("none", 0).value().empty());
}

}  // namespace
}  // namespace cera::gguf
