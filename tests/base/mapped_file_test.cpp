#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"

namespace cera {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("cera-files-") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  size_t count() const {
    return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(Files, MappedAndReadBytesAreTheSame) {
  std::ofstream(path("a")) << "some bytes";
  for (const bool use_mmap : {true, false}) {
    auto file = MappedFile::open(path("a"), use_mmap);
    ASSERT_TRUE(file.has_value()) << file.error().text();
    EXPECT_EQ(file->is_mapped(), use_mmap);
    EXPECT_EQ(text_of(*file), "some bytes");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes().data()) % 64, 0u);
    MappedFile moved = std::move(*file);
    EXPECT_EQ(text_of(moved), "some bytes");
  }
}

TEST_F(Files, EmptyFileHasNoBytes) {
  std::ofstream(path("empty")).flush();
  for (const bool use_mmap : {true, false}) {
    auto file = MappedFile::open(path("empty"), use_mmap);
    ASSERT_TRUE(file.has_value());
    EXPECT_TRUE(file->bytes().empty());
  }
}

TEST_F(Files, WhatCannotBeOpenedSaysWhy) {
  const auto missing = MappedFile::open(path("missing"));
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().where, path("missing"));
  const auto folder = MappedFile::open(folder_.string());
  EXPECT_EQ(folder.error().code, ErrorCode::io);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path("pipe")).error().code,
            ErrorCode::io);  // and does not wait for a writer
}

TEST_F(Files, AtomicWriteReplacesAndLeavesNothingBehind) {
  for (const std::string text : {"first", "second, longer", ""}) {
    const std::span<const std::byte> pieces[] = {as_bytes(text), as_bytes("!"), {}};
    ASSERT_TRUE(write_file_atomically(path("out"), pieces).has_value());
    EXPECT_EQ(text_of(*MappedFile::open(path("out"))), text + "!");
    EXPECT_EQ(count(), 1u);
  }
}

TEST_F(Files, FailedWriteLeavesNothingBehind) {
  const std::span<const std::byte> pieces[] = {as_bytes("text")};
  EXPECT_EQ(write_file_atomically(path("no-folder/out"), pieces).error().code, ErrorCode::io);
  fs::create_directories(path("taken/inside"));
  EXPECT_EQ(write_file_atomically(path("taken"), pieces).error().code, ErrorCode::io);
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace cera
