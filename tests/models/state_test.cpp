// What a sequence remembers can be cut back, saved, restored and copied, to the same bits as a
// fresh run. LFM2 has both kinds of memory: pages of keys and values, and convolution columns.

#include <gtest/gtest.h>

#include "models/runner.h"
#include "models/tiny_model.h"

namespace cera::tests {
namespace {

using Tokens = std::vector<int32_t>;

Tokens joined(Tokens head, const Tokens& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

class State : public ::testing::TestWithParam<CpuTier> {
 protected:
  RunnerOptions options() const {
    return {.tier = GetParam(), .kv_type = KvType::f16, .n_slots = 3, .max_cells = 192};
  }
  Tokens tokens(uint64_t seed, size_t n) const {
    Tokens ids(n);
    for (size_t i = 0; i < n; ++i) ids[i] = int32_t(random_word(seed, i) % fixture_.n_vocab);
    return ids;
  }
  /// The logits of the last n of these tokens, from nothing.
  std::vector<float> fresh(const Tokens& all, size_t n) const {
    const std::vector<float> logits = Runner(plan(), options()).feed(all, uint32_t(all.size()));
    return {logits.end() - ptrdiff_t(n * fixture_.n_vocab), logits.end()};
  }
  const Plan& plan() const { return loaded_.model->plan(); }

  Fixture fixture_ = load_fixture("lfm2");
  LoadedModel loaded_ = load(convert(fixture_));
};

TEST_P(State, TruncatedSequenceGoesOnLikeAFreshOne) {
  const Tokens first = tokens(1, 100);
  for (const uint32_t length : {99u, 65u, 64u, 63u, 37u, 36u}) {  // 36: all of kConvHistory back
    Runner runner(plan(), options());
    runner.feed(first, 33);
    const Tokens kept(first.begin(), first.begin() + length), tail = tokens(2, 40);
    EXPECT_TRUE(same_bits(runner.feed(tail, 40, 0, length), fresh(joined(kept, tail), 40)))
        << length;
  }
}

/// What truncation leaves behind must be invisible even when it is cleared half way through a page.
TEST_P(State, ClearedTailsChangeNothing) {
  const Tokens first = tokens(1, 100), tail = tokens(2, 20);
  Runner runner(plan(), options());
  runner.feed(first, 100);
  runner.state().clear_page(runner.pages_of(0)[1], 80 - kPageCells);
  runner.state().clear_page(runner.pages_of(0)[2], 0);
  const Tokens kept(first.begin(), first.begin() + 80);
  EXPECT_TRUE(same_bits(runner.feed(tail, 20, 0, 80), fresh(joined(kept, tail), 20)));
}

/// As the prefix cache does it: pages are copied, and the columns come from a snapshot taken at a
/// page's end.
TEST_P(State, SnapshotAtAPageEndRestoresTheColumns) {
  const Tokens prefix = tokens(1, 128), tail = tokens(2, 30);
  Runner runner(plan(), options());
  runner.feed(prefix, 50);
  std::vector<std::byte> snapshot(runner.state().snapshot_bytes());
  EXPECT_EQ(snapshot.size(), 2 * 2 * 64 * sizeof(float));  // layers, taps - 1, width
  runner.state().save_snapshot(0, 128, snapshot);

  runner.feed(tokens(3, 90), 90, 1);  // another sequence's columns are in slot 1
  for (int page = 0; page < 2; ++page)
    runner.state().copy_page(runner.pages_of(0)[page], runner.pages_of(1)[page]);
  runner.state().load_snapshot(1, 128, snapshot);
  EXPECT_TRUE(same_bits(runner.feed(tail, 7, 1, 128), fresh(joined(prefix, tail), 30)));
}

TEST_P(State, ForkGoesItsOwnWay) {
  const Tokens prefix = tokens(1, 70), left = tokens(2, 25), right = tokens(3, 25);
  Runner runner(plan(), options());
  runner.feed(prefix, 70);
  for (int page = 0; page < 2; ++page)
    runner.state().copy_page(runner.pages_of(0)[page], runner.pages_of(2)[page]);
  runner.state().copy_slot(0, 2);
  EXPECT_TRUE(same_bits(runner.feed(left, 5, 0, 70), fresh(joined(prefix, left), 25)));
  EXPECT_TRUE(same_bits(runner.feed(right, 9, 2, 70), fresh(joined(prefix, right), 25)));
}

/// Columns that a slot holds from an earlier sequence are not those of a new one.
TEST_P(State, ReusedSlotStartsFromNothing) {
  Runner runner(plan(), options());
  runner.feed(tokens(1, 100), 100);
  const Tokens second = tokens(2, 50);
  EXPECT_TRUE(same_bits(runner.feed(second, 13), fresh(second, 50)));
}

INSTANTIATE_TEST_SUITE_P(Tiers, State, ::testing::ValuesIn(tiers()),
                         [](const auto& test) { return std::string(tier_name(test.param)); });

}  // namespace
}  // namespace cera::tests
