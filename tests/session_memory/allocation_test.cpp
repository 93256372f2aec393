// A decode step allocates nothing. A program of its own, because it replaces operator new.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "backends/cpu/cpu_backend.h"
#include "models/tiny_model.h"
#include "session/runner.h"
#include "session/sampler.h"

namespace {

std::atomic<uint64_t> n_allocations = 0;

void* counted(void* memory) {
  ++n_allocations;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

[[gnu::noinline]] void release(void* memory) {
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) {
  return counted(std::malloc(size));
}
void* operator new(size_t size, std::align_val_t alignment) {
  const size_t unit = size_t(alignment);
  return counted(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
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

namespace cera {
namespace {

uint64_t allocations_of(auto&& body) {
  const uint64_t before = n_allocations;
  body();
  return n_allocations - before;
}

TEST(Allocation, TheCounterCounts) {
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(5)); }), 1u);
}

TEST(Allocation, DecodeStepsAllocateNothing) {
  const tests::LoadedModel loaded = tests::load(tests::convert(tests::load_fixture("llama")));
  const std::shared_ptr<Backend> backend =
      make_cpu_backend({.tier = read_cpu_info().best_tier, .n_threads = 2});
  const auto runner =
      Runner::make(loaded.model, backend, {.context_size = 400, .n_sequences = 3}).value();
  std::vector<Sequence> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(runner->new_sequence().value());
  const std::vector<text::TokenId> token = {7};
  const RunInput inputs[3] = {
      {&sequences[0], token, 1}, {&sequences[1], token, 1}, {&sequences[2], token, 0}};
  ASSERT_TRUE(runner->run(inputs).has_value());
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 300; ++i)
                EXPECT_TRUE(runner->run(inputs).has_value());  // across pages and spans
            }),
            0u);
}

TEST(Allocation, SamplingAllocatesOnItsFirstCallsOnly) {
  std::vector<float> logits(5000);
  Random random(1);
  for (float& x : logits) x = float(random.uniform() * 10);
  std::vector<text::TokenId> history(300, 4);
  for (const SamplerOptions& options :
       {SamplerOptions{}, SamplerOptions{.temperature = 0},
        SamplerOptions{.top_k = 0, .repetition_penalty = 1.1f, .logit_bias = {{3, 1.0f}}}}) {
    Sampler sampler = Sampler::make(options).value();
    ASSERT_TRUE(sampler.sample(logits, history).has_value());
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < 50; ++i)
                  EXPECT_TRUE(sampler.sample(logits, history).has_value());
              }),
              0u);
  }
}

}  // namespace
}  // namespace cera
