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
// Files are read into memory that is asked for without exceptions; the other forms go through these.
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

TEST(Memory, StringsJustTooLongForTheInlineBuffer) {
  RawFile file(0, 1);
  const uint64_t n = file_bytes / 24;
  file.key("k", ValueType::array).array(ValueType::string, n);
  for (uint64_t i = 0; i < n; ++i) file.text("sixteen bytes ok");
  expect_bounded(file);
}

TEST(Memory, ManyKeys) {
  constexpr uint64_t n = 1000000;
  RawFile file(0, n);
  for (uint64_t i = 0; i < n; ++i) file.entry(fmt::format("{:x}", i), ValueType::u8, uint8_t{0});
  expect_bounded(file);
}

TEST(Memory, ManyTensors) {
  constexpr uint64_t n = 500000;
  RawFile file(n, 1);
  file.entry("general.alignment", ValueType::u8, uint8_t{8});
  for (uint64_t i = 0; i < n; ++i) file.tensor(fmt::format("{:x}", i), {1}, 24, 8 * i);
  file.pad().zeros(8 * n);
  expect_bounded(file);
}

TEST(Memory, ManyNestedArrays) {
  RawFile file(0, 1);
  const uint64_t n = file_bytes / 48;
  file.key("k", ValueType::array).array(ValueType::array, n);
  for (uint64_t i = 0; i < n; ++i)
    file.array(ValueType::array, 1)
        .array(ValueType::array, 1)
        .array(ValueType::u8, 1)
        .number(uint8_t{1});
  file.zeros(n);
  expect_bounded(file);
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
