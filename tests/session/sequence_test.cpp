// Page tables against a model that knows nothing of pages: random operations on several sequences.

#include "session/sequence.h"

#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "session/random.h"

namespace cera {
namespace {

constexpr uint32_t kTaps = 3;
constexpr uint32_t kRing = kConvHistory + kTaps - 1;

/// One int per cell, and a ring of convolution columns that know which cell they belong to.
class FakeMemory final : public StateMemory {
 public:
  struct Column {
    uint32_t cell = UINT32_MAX;
    int32_t value = 0;
  };

  FakeMemory(uint32_t n_pages, uint32_t n_slots)
      : size_{n_pages, n_slots, KvType::f16}, cells(n_pages * kPageCells), rings(n_slots * kRing) {}

  const StateSize& size() const override { return size_; }
  void clear_page(uint32_t page, uint32_t first_cell) override {
    for (uint32_t i = first_cell; i < kPageCells; ++i) cells[page * kPageCells + i] = 0;
  }
  void copy_page(uint32_t from, uint32_t to) override {
    for (uint32_t i = 0; i < kPageCells; ++i)
      cells[to * kPageCells + i] = cells[from * kPageCells + i];
  }
  void copy_slot(uint32_t from, uint32_t to) override {
    for (uint32_t i = 0; i < kRing; ++i) rings[to * kRing + i] = rings[from * kRing + i];
  }
  size_t snapshot_bytes() const override { return (kTaps - 1) * sizeof(int32_t); }
  void save_snapshot(uint32_t slot, uint32_t next_cell, std::span<std::byte> to) const override {
    for (uint32_t i = 0; i < kTaps - 1; ++i) {
      const int32_t value = column(slot, next_cell - (kTaps - 1) + i);
      std::memcpy(to.data() + i * sizeof value, &value, sizeof value);
    }
  }
  void load_snapshot(uint32_t slot, uint32_t next_cell, std::span<const std::byte> from) override {
    for (uint32_t i = 0; i < kTaps - 1; ++i) {
      const uint32_t cell = next_cell - (kTaps - 1) + i;
      int32_t value;
      std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
      rings[slot * kRing + cell % kRing] = {cell, value};
    }
  }
  size_t bytes() const override { return 0; }

  int32_t column(uint32_t slot, uint32_t cell) const {
    const Column& c = rings[slot * kRing + cell % kRing];
    EXPECT_EQ(c.cell, cell) << "the ring no longer holds this column";
    return c.value;
  }

  StateSize size_;
  std::vector<int32_t> cells;
  std::vector<Column> rings;
};

struct Tracked {
  Sequence sequence;
  std::vector<int32_t> expected;
};

class SequenceTest : public testing::Test {
 protected:
  void open(uint32_t n_pages, uint32_t n_slots, bool recurrent, uint32_t max_cells) {
    memory = std::make_unique<FakeMemory>(n_pages, n_slots);
    store = std::make_unique<SequenceStore>(*memory, recurrent, max_cells);
  }

  Tracked make() { return {Sequence::make(*store).value(), {}}; }

  int32_t& cell(const Sequence& s, uint32_t i) {
    return memory->cells[s.view().pages[i / kPageCells] * kPageCells + i % kPageCells];
  }

  /// What a step does: checks what it may rely on, then writes values to the new cells.
  bool append(Tracked& t, uint32_t n, bool fails = false) {
    if (!t.sequence.prepare(n)) return false;
    const uint32_t length = t.sequence.length(), slot = t.sequence.view().slot;
    const auto pages = t.sequence.view().pages;
    EXPECT_EQ(pages.size(), (length + n + kPageCells - 1) / kPageCells);
    for (size_t p = length / kPageCells; p < pages.size(); ++p)
      EXPECT_EQ(store->pages.references(pages[p]), 1u) << "a written page must not be shared";
    for (uint32_t i = length; i < pages.size() * kPageCells; ++i)
      EXPECT_EQ(cell(t.sequence, i), 0) << "cell " << i << " of a masked rest is not zero";
    for (uint32_t i = length >= 2 ? length - 2 : 0; store->recurrent && i < length; ++i)
      EXPECT_EQ(memory->column(slot, i), t.expected[i]);
    for (uint32_t i = length; i < length + n; ++i) {
      const int32_t value = fails ? -7 : ++counter;
      cell(t.sequence, i) = value;
      memory->rings[slot * kRing + i % kRing] = {i, value};
      if (!fails) t.expected.push_back(value);
    }
    if (!fails) {
      t.sequence.commit(n);
    } else {
      t.sequence.abandon();
      check_cut(t, length);
    }
    return true;
  }

  void truncate(Tracked& t, uint32_t n) {
    const uint32_t kept = t.sequence.truncate(n);
    EXPECT_EQ(kept, t.sequence.length());
    check_cut(t, n);
  }

  void check_cut(Tracked& t, uint32_t n) {
    const uint32_t kept = t.sequence.length();
    EXPECT_TRUE(kept == n || (store->recurrent && kept < n && kept % kPageCells == 0));
    t.expected.resize(kept);
  }

  void check(const std::vector<Tracked>& all) {
    std::map<uint32_t, uint32_t> references;
    for (const Tracked& t : all) {
      ASSERT_EQ(t.sequence.length(), t.expected.size());
      ASSERT_EQ(t.sequence.view().pages.size(), (t.expected.size() + kPageCells - 1) / kPageCells);
      for (const uint32_t page : t.sequence.view().pages) ++references[page];
      for (uint32_t i = 0; i < t.sequence.length(); ++i)
        ASSERT_EQ(cell(t.sequence, i), t.expected[i]) << "cell " << i;
    }
    for (const auto& [page, n] : references) ASSERT_EQ(store->pages.references(page), n);
    ASSERT_EQ(store->pages.free_pages() + references.size(), store->pages.n_pages());
  }

  /// Random appends, truncates, forks, ends and failed steps.
  void fuzz(uint64_t seed, bool recurrent) {
    open(24, 6, recurrent, 600);
    Random random(seed);
    std::vector<Tracked> all;
    for (int step = 0; step < 600; ++step) {
      const uint64_t what = random.below(10);
      if (all.empty() || what == 0) {
        if (all.size() < 6) all.push_back(make());
      } else {
        Tracked& t = all[random.below(all.size())];
        const uint32_t length = t.sequence.length();
        if (what <= 5) {
          append(t, uint32_t(1 + random.below(what == 1 ? 200 : 30)));
        } else if (what == 6) {
          append(t, uint32_t(1 + random.below(80)), true);
        } else if (what == 7) {
          truncate(t, uint32_t(random.below(length + 1)));
        } else if (what == 8) {
          truncate(t, length - uint32_t(random.below(std::min(length, 70u) + 1)));
        } else if (all.size() < 6) {
          auto copy = t.sequence.fork();
          ASSERT_TRUE(copy.has_value());
          std::vector<int32_t> expected = t.expected;
          all.push_back({std::move(*copy), std::move(expected)});
        } else {
          all.erase(all.begin() + ptrdiff_t(random.below(all.size())));
        }
      }
      check(all);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
    all.clear();
    EXPECT_EQ(store->pages.free_pages(), store->pages.n_pages());
  }

  std::unique_ptr<FakeMemory> memory;
  std::unique_ptr<SequenceStore> store;
  int32_t counter = 0;
};

TEST_F(SequenceTest, RandomOperationsPlain) {
  for (uint64_t seed = 0; seed < 20; ++seed) fuzz(seed, false);
}

TEST_F(SequenceTest, RandomOperationsRecurrent) {
  for (uint64_t seed = 100; seed < 120; ++seed) fuzz(seed, true);
}

TEST_F(SequenceTest, ContextLimitNamesBothNumbers) {
  open(4, 1, false, 100);
  Tracked t = make();
  ASSERT_TRUE(append(t, 90));
  const auto result = t.sequence.prepare(11);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::context_full);
  EXPECT_NE(result.error().message.find("11"), std::string::npos);
  EXPECT_NE(result.error().message.find("100"), std::string::npos);
  EXPECT_TRUE(append(t, 10));
  EXPECT_FALSE(append(t, 1));
  EXPECT_EQ(t.sequence.length(), 100u);
}

TEST_F(SequenceTest, OutOfPagesChangesNothing) {
  open(3, 2, false, 200);
  Tracked a = make(), b = make();
  ASSERT_TRUE(append(a, 70));
  EXPECT_FALSE(append(b, 100));
  EXPECT_EQ(store->pages.free_pages(), 1u);
  EXPECT_TRUE(append(b, 64));
  EXPECT_EQ(Sequence::make(*store).error().code, ErrorCode::context_full);  // no third slot
}

TEST_F(SequenceTest, ForkSharesPagesUntilOneWrites) {
  open(6, 2, false, 200);
  Tracked a = make();
  ASSERT_TRUE(append(a, 100));
  Tracked b{a.sequence.fork().value(), a.expected};
  EXPECT_EQ(store->pages.free_pages(), 4u);
  ASSERT_TRUE(append(b, 1));
  EXPECT_EQ(store->pages.free_pages(),
            3u);  // the partly filled page was copied, the full one is shared
  EXPECT_EQ(a.sequence.view().pages[0], b.sequence.view().pages[0]);
  EXPECT_NE(a.sequence.view().pages[1], b.sequence.view().pages[1]);
}

TEST_F(SequenceTest, RecurrentTruncateReachesBackByHistoryOrSnapshot) {
  open(12, 1, true, 700);
  Tracked t = make();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(append(t, 100));
  EXPECT_EQ(t.sequence.truncate(500 - kConvHistory), 500 - kConvHistory);  // from the ring
  EXPECT_EQ(t.sequence.truncate(400), 384u);  // page end 384 was within reach after the step to 400
  EXPECT_EQ(t.sequence.truncate(383), 256u);  // 320 was not (steps ended at 300 and 400)
  EXPECT_EQ(t.sequence.truncate(10), 0u);
  t.expected.clear();
  EXPECT_TRUE(append(t, 3));
}

}  // namespace
}  // namespace cera
