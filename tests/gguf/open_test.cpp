// Opening by path: mapped or read, metadata alone, split files.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gguf/exercise.h"
#include "gguf/sample.h"
#include "gguf/split.h"

namespace cera::gguf {
namespace {

namespace fs = std::filesystem;

class Open : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("cera-open-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(Open, MappedReadAndMetadataOnly) {
  const auto bytes = sample_bytes();
  std::ofstream(path("m.gguf"), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), long(bytes.size()));
  const auto mapped = File::open(path("m.gguf"));
  const auto read = File::open(path("m.gguf"), {.use_mmap = false});
  ASSERT_TRUE(mapped.has_value() && read.has_value());
  EXPECT_TRUE(same_contents(**mapped, **read));
  EXPECT_EQ((*mapped)->size_bytes(), bytes.size());
  for (const bool use_mmap : {true, false}) {
    const auto alone = File::open(path("m.gguf"), {.use_mmap = use_mmap, .metadata_only = true});
    ASSERT_TRUE(alone.has_value());
    EXPECT_EQ((*alone)->metadata().size(), (*mapped)->metadata().size());
    EXPECT_EQ((*alone)->tensors().size(), (*mapped)->tensors().size());
    EXPECT_EQ((*alone)->tensors()[0].data, nullptr);
    EXPECT_EQ((*alone)->tensors()[0].size_bytes, (*mapped)->tensors()[0].size_bytes);
  }
}

TEST_F(Open, WhatCannotBeOpened) {
  EXPECT_EQ(File::open(path("none.gguf")).error().code, ErrorCode::not_found);
  EXPECT_EQ(File::open(folder_.string()).error().code, ErrorCode::io);
  std::ofstream(path("empty.gguf")).flush();
  const auto empty = File::open(path("empty.gguf"));
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, ErrorCode::malformed);
  EXPECT_EQ(empty.error().where, path("empty.gguf"));
}

TEST(SplitNames, Patterns) {
  const auto name = parse_split_name("a/b-00002-of-00011.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "a/b");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 11u);
  EXPECT_EQ(split_path("a/b", 2, 11), "a/b-00002-of-00011.gguf");
  for (const char* other :
       {"a.gguf", "", ".gguf", "a-0002-of-00011.gguf", "a-00002-of-00011", "a-00000-of-00002.gguf",
        "a-00003-of-00002.gguf", "a-0000x-of-00002.gguf", "a-00001-of-+0002.gguf",
        "a-00001_of-00002.gguf", "00001-of-00002.gguf"})
    EXPECT_FALSE(parse_split_name(other).has_value()) << other;
}

struct SplitOptions {
  uint32_t n_parts = 3;
  int64_t n_tensors = -1;  // what the metadata says; -1 the truth
  bool repeat_names = false;
};

class Split : public Open {
 protected:
  std::string part(uint64_t number, uint64_t count = 3) const {
    return split_path(path("m"), number, count);
  }

  static void set_split_keys(Writer& writer, uint64_t number, uint64_t count, int64_t n_tensors) {
    writer.set("split.no", Value(number), ValueType::u16);
    writer.set("split.count", Value(count), ValueType::u16);
    writer.set("split.tensors.count", Value(n_tensors), ValueType::i32);
  }

  void write_parts(SplitOptions options = {}) {
    const auto truth = int64_t(options.n_parts * all_types().size());
    for (uint32_t i = 0; i < options.n_parts; ++i) {
      Writer writer;
      SampleTensors tensors;
      if (i == 0) add_sample_metadata(writer);
      set_split_keys(writer, i, options.n_parts, options.n_tensors < 0 ? truth : options.n_tensors);
      tensors.add_to(writer, options.repeat_names ? "" : fmt::format("part{}.", i));
      ASSERT_TRUE(writer.write(part(i + 1, options.n_parts)).has_value());
    }
  }

  static void expect_refusal(const std::string& path, ErrorCode code,
                             std::initializer_list<std::string_view> parts) {
    const auto opened = File::open(path);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, code);
    for (const std::string_view text : parts)
      EXPECT_NE(opened.error().text().find(text), std::string::npos) << opened.error().text();
  }
};

TEST_F(Split, PartsMakeOneFile) {
  write_parts();
  for (const bool use_mmap : {true, false}) {
    const auto opened = File::open(part(1), {.use_mmap = use_mmap});
    ASSERT_TRUE(opened.has_value()) << opened.error().text();
    const File& file = **opened;
    EXPECT_EQ(file.get_string("general.architecture"), "sample");
    ASSERT_EQ(file.tensors().size(), 3 * all_types().size());
    uint64_t total = 0;
    for (uint32_t i = 0; i < 3; ++i) {
      const TensorInfo* tensor = file.find_tensor(fmt::format("part{}.Q8_0.weight", i));
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->file_index, i);
      const TensorInfo* first = file.find_tensor("part0.Q8_0.weight");
      EXPECT_TRUE(std::equal(tensor->data, tensor->data + tensor->size_bytes, first->data));
      total += fs::file_size(part(i + 1));
    }
    EXPECT_EQ(file.size_bytes(), total);
  }
}

TEST_F(Split, FirstPartMayHoldNoTensors) {
  Writer first, second;
  SampleTensors tensors;
  set_split_keys(first, 0, 2, int64_t(all_types().size()));
  set_split_keys(second, 1, 2, int64_t(all_types().size()));
  tensors.add_to(second);
  ASSERT_TRUE(first.write(part(1, 2)).has_value());
  ASSERT_TRUE(second.write(part(2, 2)).has_value());
  const auto file = File::open(part(1, 2));
  ASSERT_TRUE(file.has_value()) << file.error().text();
  EXPECT_EQ((*file)->tensors()[0].file_index, 1u);
}

TEST_F(Split, MissingPart) {
  write_parts();
  fs::remove(part(3));
  expect_refusal(part(1), ErrorCode::not_found, {"part 3 of 3 is missing", part(3)});
}

TEST_F(Split, DamagedPart) {
  write_parts();
  fs::resize_file(part(2), 100);
  expect_refusal(part(1), ErrorCode::malformed, {part(2)});
}

TEST_F(Split, OpeningALaterPartNamesTheFirst) {
  write_parts();
  expect_refusal(part(2), ErrorCode::invalid_argument, {"part 2 of 3", "open " + part(1)});
  fs::rename(part(2), path("renamed.gguf"));
  expect_refusal(path("renamed.gguf"), ErrorCode::invalid_argument,
                 {"part 2 of 3", "the first part"});
}

TEST_F(Split, NamesAndKeysMustAgree) {
  write_parts();
  fs::copy(part(1), path("renamed.gguf"));
  expect_refusal(path("renamed.gguf"), ErrorCode::invalid_argument,
                 {"part 1 of 3", "-00001-of-00003.gguf"});
  fs::copy(part(1), part(1, 4));
  expect_refusal(part(1, 4), ErrorCode::invalid_argument, {"part 1 of 3"});
  fs::copy(part(2), part(3), fs::copy_options::overwrite_existing);
  expect_refusal(part(1), ErrorCode::malformed, {part(3), "calls itself part 2 of 3", "3 of 3"});
}

TEST_F(Split, WholeFileNamedLikeAPart) {
  Writer writer;
  writer.set_uint("a", 1);
  ASSERT_TRUE(writer.write(part(1, 2)).has_value());
  expect_refusal(part(1, 2), ErrorCode::malformed, {"part 1 of 2", "split.count"});
  ASSERT_TRUE(writer.write(part(1, 1)).has_value());
  EXPECT_TRUE(File::open(part(1, 1)).has_value());
}

TEST_F(Split, TensorCountMustAgree) {
  write_parts({.n_tensors = 34});
  expect_refusal(part(1), ErrorCode::malformed, {"33 tensors", "34"});
}

TEST_F(Split, ATensorInTwoParts) {
  write_parts({.repeat_names = true});
  expect_refusal(part(1), ErrorCode::malformed, {"'BF16.weight' appears twice"});
}

TEST_F(Split, BadKeys) {
  const std::pair<const char*, Value> cases[] = {{"split.no", Value(uint64_t{3})},
                                                 {"split.no", Value(uint64_t{60000})}};
  for (const auto& [key, value] : cases) {
    Writer writer;
    set_split_keys(writer, 0, 3, 0);
    writer.set(key, value, ValueType::u16);
    ASSERT_TRUE(writer.write(part(1)).has_value());
    expect_refusal(part(1), ErrorCode::malformed, {key});
  }
  Writer text, missing;
  text.set_string("split.count", "3");
  ASSERT_TRUE(text.write(part(1)).has_value());
  expect_refusal(part(1), ErrorCode::malformed, {"split.count", "integer"});
  missing.set_uint("split.count", 3);
  ASSERT_TRUE(missing.write(part(1)).has_value());
  expect_refusal(part(1), ErrorCode::malformed, {"split.no"});
}

TEST_F(Split, BytesInMemoryAreRefused) {
  Writer writer;
  set_split_keys(writer, 0, 3, 0);
  const auto bytes = writer.bytes().value();
  const auto opened = File::from_bytes(bytes);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace cera::gguf
