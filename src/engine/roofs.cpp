#include "engine/roofs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cera {
namespace {

constexpr size_t kBufferBytes = size_t(128) << 20;
constexpr uint32_t kRepeats = 5;       // the best one counts
constexpr uint32_t kSteps = 1u << 20;  // of each arithmetic loop
constexpr uint32_t kChains = 8;        // independent accumulators, to hide latency

std::atomic<uint64_t> sink;  // keeps results alive

double seconds_of(auto&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

uint64_t read_words(const uint64_t* words, size_t n) {
  uint64_t sums[kChains] = {};
  for (size_t i = 0; i + kChains <= n; i += kChains)
    for (size_t lane = 0; lane < kChains; ++lane) sums[lane] += words[i + lane];
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

struct Loop {
  uint64_t (*run)();
  double ops;  // of one call
};

uint64_t f32_scalar() {
  float sums[kChains] = {};
  for (uint32_t i = 0; i < kSteps / 8; ++i)
    for (float& s : sums) s = std::fma(s, 0.999f, 0.5f);
  return uint64_t(sums[0] + sums[1] + sums[2] + sums[3]);
}

uint64_t int8_scalar() {
  int32_t sums[kChains] = {};
  for (uint32_t i = 0; i < kSteps / 8; ++i)
    for (uint32_t lane = 0; lane < kChains; ++lane) sums[lane] += int8_t(i) * int8_t(i + lane);
  return uint64_t(sums[0] + sums[1] + sums[2] + sums[3]);
}

constexpr Loop kScalarF32 = {f32_scalar, 2.0 * kChains*(kSteps / 8)};
constexpr Loop kScalarInt8 = {int8_scalar, 2.0 * kChains*(kSteps / 8)};

#if defined(__x86_64__)
constexpr int kVectors = 12;  // independent accumulators

[[gnu::target("avx2,fma")]] uint64_t f32_avx2() {
  __m256 sums[kVectors];
  for (__m256& s : sums) s = _mm256_setzero_ps();
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.5f);
  for (uint32_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kVectors; ++j) sums[j] = _mm256_fmadd_ps(sums[j], a, b);
  }
  float out[8] = {};
  for (const __m256& s : sums) _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), s));
  return uint64_t(out[0]);
}

[[gnu::target("avx2,fma")]] uint64_t int8_avx2() {
  __m256i sums[kVectors];
  for (int j = 0; j < kVectors; ++j) sums[j] = _mm256_set1_epi16(int16_t(j + 1));
  const __m256i a = _mm256_set1_epi8(3);
  for (uint32_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kVectors; ++j)  // each product depends on its sum: nothing can be hoisted
      sums[j] = _mm256_add_epi16(sums[j], _mm256_maddubs_epi16(a, sums[j]));
  }
  __m256i total = sums[0];
  for (int j = 1; j < kVectors; ++j) total = _mm256_add_epi16(total, sums[j]);
  return uint64_t(_mm256_extract_epi64(total, 0));
}

[[gnu::target("avx512f")]] uint64_t f32_avx512() {
  __m512 sums[kVectors];
  for (__m512& s : sums) s = _mm512_setzero_ps();
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.5f);
  for (uint32_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kVectors; ++j) sums[j] = _mm512_fmadd_ps(sums[j], a, b);
  }
  __m512 total = sums[0];
  for (int j = 1; j < kVectors; ++j) total = _mm512_add_ps(total, sums[j]);
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, total);
  return uint64_t(lanes[0]);
}

[[gnu::target("avx512f,avx512vnni")]] uint64_t int8_avx512() {
  __m512i sums[kVectors];
  for (int j = 0; j < kVectors; ++j) sums[j] = _mm512_set1_epi32(j + 1);
  const __m512i a = _mm512_set1_epi32(0x03030303), b = _mm512_set1_epi32(0x05050505);
  for (uint32_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kVectors; ++j) sums[j] = _mm512_dpbusd_epi32(sums[j], a, b);
  }
  __m512i total = sums[0];
  for (int j = 1; j < kVectors; ++j) total = _mm512_add_epi32(total, sums[j]);
  alignas(64) int32_t lanes[16];  // GCC 12 warns falsely about the cast to 128 bits
  _mm512_store_si512(lanes, total);
  return uint64_t(lanes[0]);
}

constexpr Loop kAvx2F32 = {f32_avx2, 2.0 * 8 * kVectors* kSteps};
constexpr Loop kAvx2Int8 = {int8_avx2, 2.0 * 32 * kVectors* kSteps};
constexpr Loop kAvx512F32 = {f32_avx512, 2.0 * 16 * kVectors* kSteps};
constexpr Loop kAvx512Int8 = {int8_avx512, 2.0 * 64 * kVectors* kSteps};
#endif

double giga_per_second(ThreadPool& pool, const Loop& loop) {
  double best = 1e30;
  for (uint32_t i = 0; i < kRepeats; ++i)
    best = std::min(best, seconds_of([&] {
                      pool.run(pool.size(), [&](uint32_t, uint32_t) { sink += loop.run(); });
                    }));
  return loop.ops * pool.size() / best / 1e9;
}

double read_giga_bytes_per_second(ThreadPool& pool) {
  const std::vector<uint64_t> buffer(kBufferBytes / sizeof(uint64_t), 1);
  constexpr uint32_t kTasks = 64;
  const size_t words = buffer.size() / kTasks;
  double best = 1e30;
  for (uint32_t i = 0; i < kRepeats; ++i)
    best = std::min(best, seconds_of([&] {
                      pool.run(kTasks, [&](uint32_t task, uint32_t) {
                        sink += read_words(&buffer[task * words], words);
                      });
                    }));
  return double(kBufferBytes) / best / 1e9;
}

}  // namespace

Roofs measure_roofs(ThreadPool& pool, CpuTier tier) {
  Loop f32 = kScalarF32, int8 = kScalarInt8;
#if defined(__x86_64__)
  if (tier >= CpuTier::avx2) {
    f32 = kAvx2F32;
    int8 = kAvx2Int8;
  }
  if (tier >= CpuTier::avx512) {
    f32 = kAvx512F32;
    int8 = kAvx512Int8;
  }
#endif
  Roofs roofs;
  roofs.read_gb_s = read_giga_bytes_per_second(pool);
  roofs.int8_gops = giga_per_second(pool, int8);
  roofs.f32_gflops = giga_per_second(pool, f32);
  return roofs;
}

}  // namespace cera
