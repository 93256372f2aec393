// What the executable refuses, that it does not allocate, and what it says about itself.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "backends/cpu_tiers.h"
#include "backends/tiny_plan.h"

namespace {
std::atomic<uint64_t> allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void* p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes ? bytes : 1)
                                                   : std::aligned_alloc(alignment, bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

// Every allocation of this program is counted.
void* operator new(std::size_t bytes) {
  return counted(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t a) {
  return counted(bytes, std::size_t(a));
}
void* operator new[](std::size_t bytes, std::align_val_t a) {
  return counted(bytes, std::size_t(a));
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace cera::tests {
namespace {

class CpuExecutableTest : public ::testing::Test {
 protected:
  CpuExecutableTest()
      : tiny_(make_tiny_plan(
            {TensorType::q4_k, TensorType::q6_k, TensorType::q8_0, TensorType::f16})),
        backend_(make_cpu_backend({available_tiers().back(), 2})),
        executable_(must(backend_->prepare(tiny_.plan, {.max_rows = 300, .max_outputs = 2}))),
        state_(must(backend_->make_state(tiny_.plan.state, {.n_pages = 10, .n_slots = 2}))) {}

  std::vector<Row> rows(uint32_t first, uint32_t n) const {
    std::vector<Row> made;
    for (uint32_t i = first; i < first + n; ++i) {
      made.push_back({.token = int32_t(i % 90), .cell = i, .position = i, .last_visible = i});
    }
    return made;
  }
  Result<void> submit(const std::vector<Row>& rows) {
    const SequenceView views[] = {{0, pages_}};
    return executable_->submit({rows, views}, *state_);
  }
  std::string error_of(const std::vector<Row>& rows) {
    auto done = submit(rows);
    return done ? "no error" : done.error().text();
  }

  TinyPlan tiny_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<StateMemory> state_;
  std::vector<uint32_t> pages_ = {3, 1, 0, 7, 5, 9};
};

TEST_F(CpuExecutableTest, AllocatesNothingInAStep) {
  for (const bool profiling : {false, true}) {
    executable_->set_profiling(profiling);
    std::vector<Row> prefill = rows(0, 300), decode = rows(300, 1);
    prefill.back().wants_output = decode.back().wants_output = true;
    const uint64_t before = allocations;
    ASSERT_TRUE(submit(prefill));
    ASSERT_TRUE(submit(decode));
    EXPECT_EQ(allocations - before, 0u);
  }
  const uint64_t before = allocations;
  ::operator delete(::operator new(1));  // a call, which no compiler may leave out
  EXPECT_EQ(allocations - before, 1u) << "the counter does not count";
}

TEST_F(CpuExecutableTest, RefusesFaultsOfTheStep) {
  EXPECT_EQ(error_of({}), "step: 0 rows; between 1 and 300 fit");
  EXPECT_EQ(error_of(rows(0, 301)), "step: 301 rows; between 1 and 300 fit");
  std::vector<Row> bad = rows(0, 3);
  bad[2].token = 96;
  EXPECT_EQ(error_of(bad), "row 2: token 96 is not in the vocabulary of 96");
  bad[2].token = -1;
  EXPECT_EQ(error_of(bad), "row 2: token -1 is not in the vocabulary of 96");
  bad = rows(0, 3);
  for (Row& row : bad) row.wants_output = true;
  EXPECT_EQ(error_of(bad), "step: 3 rows want output; at most 2 fit");
}

TEST_F(CpuExecutableTest, RunsWithoutOutputs) {
  ASSERT_TRUE(submit(rows(0, 5)));
  EXPECT_TRUE(executable_->logits().empty());
}

TEST_F(CpuExecutableTest, RefusesSizesOutOfRange) {
  for (const uint32_t max_rows : {0u, UINT32_MAX}) {
    auto made = backend_->prepare(tiny_.plan, {.max_rows = max_rows});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_TRUE(backend_->prepare(tiny_.plan, {.max_rows = 1, .max_outputs = UINT32_MAX}));
}

TEST_F(CpuExecutableTest, RefusesUnknownTypes) {
  Plan plan = tiny_.plan;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    if (auto* glu = std::get_if<LinearGluOp>(&plan.ops[i]); glu && plan.layer_of_op[i] == 1) {
      glu->up.type = TensorType(23);
    }
  }
  auto made = backend_->prepare(plan, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().text(),
            "layer 1 linear_glu: ffn_up has type IQ4_XS, which this build cannot run");
}

TEST_F(CpuExecutableTest, Profiles) {
  ASSERT_TRUE(submit(rows(0, 5)));
  for (const OpProfile& op : executable_->profile()) EXPECT_EQ(op.calls, 0u);
  executable_->set_profiling(true);
  std::vector<Row> two = rows(5, 2);
  two[0].wants_output = true;
  ASSERT_TRUE(submit(two));
  ASSERT_TRUE(submit(rows(7, 1)));
  const std::vector<OpProfile> profile = executable_->profile();
  ASSERT_EQ(profile.size(), tiny_.plan.ops.size());
  EXPECT_EQ(profile[0].name, "embed token_embd.weight Q4_K");
  EXPECT_EQ(profile[1].name, "linear attn_q Q4_K attn_k Q6_K attn_v Q8_0");
  EXPECT_EQ(profile[0].calls, 2u);
  EXPECT_EQ(profile.back().calls, 1u) << "the head runs only when a row wants output";
  EXPECT_GT(profile[1].nanoseconds, 0u);
  for (const OpProfile& op : profile) EXPECT_FALSE(op.kernel.empty());
}

}  // namespace
}  // namespace cera::tests
