// No file makes the reader allocate more than 4 times its size and 64 MiB. A program of its own,
// because it replaces operator new.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "gguf/parser.h"
#include "gguf/raw_file.h"
#include "gguf/sample.h"

namespace {

std::atomic<size_t> now_bytes = 0, peak_bytes = 0;

void* counted(void* memory) {
  if (!memory) throw std::bad_alloc();
  const size_t now = now_bytes += malloc_usable_size(memory);
  size_t peak = peak_bytes;
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return memory;
}

void release(void* memory) {
  if (memory) now_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) {
  return counted(std::malloc(std::max<size_t>(size, 1)));
}
void* operator new(size_t size, std::align_val_t alignment) {
  const auto align = size_t(alignment);
  return counted(std::aligned_alloc(align, (size + align - 1) / align * align));
}
// Files are read into memory that is asked for without exceptions; the other forms go through
// these.
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return operator new(size, alignment);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace cera::gguf {
namespace {

constexpr size_t mib = size_t{1} << 20;
constexpr size_t file_bytes = 24 * mib;

/// Runs `open` and expects its peak above what was there before to stay in the bound.
template <class Open>
void expect_bounded(size_t size, Open open) {
  const size_t before = now_bytes;
  peak_bytes = before;
  open();
  EXPECT_LE(peak_bytes - before, 4 * size + 64 * mib);
  EXPECT_EQ(now_bytes, before);
}

void expect_bounded(const RawFile& file) {
  expect_bounded(file.size(), [&] { (void)file.open(); });
  // The same read into memory, which counts.
  const std::string path = testing::TempDir() + "cera-memory.gguf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.bytes().data()), long(file.size()));
  expect_bounded(file.size(), [&] { (void)File::open(path, {.use_mmap = false}); });
  std::filesystem::remove(path);
}

TEST(Memory, TheCounterCounts) {
  const size_t before = now_bytes;
  peak_bytes = before;
  {
    const std::vector<std::byte> memory(5 * mib);
  }
  EXPECT_GE(peak_bytes - before, 5 * mib);
  EXPECT_EQ(now_bytes, before);
}

TEST(Memory, ArraysOfEveryType) {
  // The smallest element of each type: an empty string, an empty array of u8.
  constexpr size_t element_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  for (uint32_t type = 0; type < 13; ++type) {
    RawFile file(0, 1);
    file.key("k", ValueType::array).array(ValueType(type), file_bytes / element_bytes[type]);
    expect_bounded(file.zeros(file_bytes));
  }
}

/// Whatever the budget is, parsing stays inside it; enough of it lets the file through.
void expect_budget_kept(const RawFile& file) {
  constexpr size_t message_bytes = 4096;
  for (const uint64_t budget : {size_t{0}, mib / 16, mib, 4 * mib, 16 * mib}) {
    const size_t before = now_bytes;
    peak_bytes = before;
    (void)parse(file.bytes(), "raw", budget);
    EXPECT_LE(peak_bytes - before, budget + message_bytes);
  }
  EXPECT_FALSE(parse(file.bytes(), "raw", mib).has_value());
  EXPECT_TRUE(parse(file.bytes(), "raw", 64 * mib).has_value());
}

TEST(Budget, Formula) {
  EXPECT_EQ(memory_budget(0), 64 * mib);
  EXPECT_EQ(memory_budget(10 * mib), 104 * mib);
  EXPECT_EQ(memory_budget(~uint64_t{0}), ~uint64_t{0});
}

TEST(Budget, Numbers) {
  RawFile file(0, 1);
  file.key("k", ValueType::array).array(ValueType::u8, mib).zeros(mib);
  expect_budget_kept(file);
}

TEST(Budget, Strings) {
  for (const std::string_view text :
       {"", "inline", "sixteen bytes ok", "a good deal longer than that"}) {
    constexpr uint64_t n = 100000;
    RawFile file(0, 1);
    file.key("k", ValueType::array).array(ValueType::string, n);
    for (uint64_t i = 0; i < n; ++i) file.text(text);
    expect_budget_kept(file);
  }
}

TEST(Budget, Keys) {
  constexpr uint64_t n = 50000;
  RawFile file(0, n);
  for (uint64_t i = 0; i < n; ++i) file.entry(fmt::format("{:x}", i), ValueType::u8, uint8_t{0});
  expect_budget_kept(file);
}

TEST(Budget, TextOfKeysAndValues) {
  constexpr uint64_t n = 100;
  RawFile file(0, n);
  for (uint64_t i = 0; i < n; ++i)
    file.key(fmt::format("{:060000}", i), ValueType::string).text(std::string(60000, 'x'));
  expect_budget_kept(file);
}

TEST(Budget, Tensors) {
  constexpr uint64_t n = 50000;
  RawFile file(n, 1);
  file.entry("general.alignment", ValueType::u8, uint8_t{8});
  for (uint64_t i = 0; i < n; ++i) file.tensor(fmt::format("{:x}", i), {1, 1, 1, 1}, 24, 8 * i);
  expect_budget_kept(file.pad().zeros(8 * n));
}

TEST(Budget, NestedArrays) {
  constexpr uint64_t n = 30000;
  RawFile file(0, 1);
  file.key("k", ValueType::array).array(ValueType::array, n);
  for (uint64_t i = 0; i < n; ++i)
    file.array(ValueType::array, 1).array(ValueType::u8, 1).number(uint8_t{1});
  expect_budget_kept(file);
}

TEST(Memory, LyingCounts) {
  for (const uint64_t n : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{1} << 20}) {
    expect_bounded(RawFile(n, 0).zeros(100));
    expect_bounded(RawFile(0, n).zeros(100));
    for (uint32_t type = 0; type < 13; ++type) {
      RawFile file(0, 1);
      file.key("k", ValueType::array).array(ValueType(type), n).zeros(100);
      expect_bounded(file);
    }
  }
}

TEST(Memory, AnyByteOfASmallFileChanged) {
  auto bytes = sample_bytes();
  for (std::byte& byte : bytes) {
    const std::byte original = byte;
    for (const int value : {0, 1, 0x40, 0x7f, 0xff}) {
      byte = std::byte(value);
      expect_bounded(bytes.size(), [&] { (void)File::from_bytes(bytes); });
    }
    byte = original;
  }
}

}  // namespace
}  // namespace cera::gguf
