#include "backends/cpu/cpu_state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu_tiers.h"
#include "backends/tiny_plan.h"

namespace cera::cpu {
namespace {

const StateSpec kSpec = {.kv_layers = {{2, 8}, {1, 16}}, .conv_layers = {{5, 3}, {4, 2}}};

std::unique_ptr<CpuState> make(KvType kv_type = KvType::f16) {
  return tests::must(CpuState::make(kSpec, {.n_pages = 4, .n_slots = 3, .kv_type = kv_type}));
}

/// Fills a page with a value per byte that depends on where it lies.
void fill_page(CpuState& state, uint32_t page, uint8_t seed) {
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const auto [n_kv_heads, head_dim] = kSpec.kv_layers[layer];
    const size_t bytes = size_t(head_dim) * kPageCells * state.element_bytes();
    for (uint32_t h = 0; h < n_kv_heads; ++h) {
      for (size_t i = 0; i < bytes; ++i) {
        state.k(layer, page, h)[i] = std::byte(uint8_t(seed + layer + 3 * h + 5 * i) | 1);
        state.v(layer, page, h)[i] = std::byte(uint8_t(seed + layer + 7 * h + 11 * i) | 1);
      }
    }
  }
}

std::vector<std::byte> page_bytes(CpuState& state, uint32_t page) {
  std::vector<std::byte> all;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const auto [n_kv_heads, head_dim] = kSpec.kv_layers[layer];
    const size_t bytes = size_t(head_dim) * kPageCells * state.element_bytes();
    for (uint32_t h = 0; h < n_kv_heads; ++h) {
      all.insert(all.end(), state.k(layer, page, h), state.k(layer, page, h) + bytes);
      all.insert(all.end(), state.v(layer, page, h), state.v(layer, page, h) + bytes);
    }
  }
  return all;
}

TEST(CpuState, PagesAreApart) {
  for (KvType kv_type : {KvType::f16, KvType::f32}) {
    const auto state = make(kv_type);
    for (uint32_t page = 0; page < 4; ++page) fill_page(*state, page, uint8_t(page * 20));
    const auto alone = make(kv_type);
    for (uint32_t page = 0; page < 4; ++page) {
      fill_page(*alone, 0, uint8_t(page * 20));
      EXPECT_EQ(page_bytes(*state, page), page_bytes(*alone, 0));
    }
    EXPECT_GE(state->bytes(), 4 * page_bytes(*state, 0).size());
  }
}

TEST(CpuState, ClearsTheEndOfAPage) {
  for (KvType kv_type : {KvType::f16, KvType::f32}) {
    const auto state = make(kv_type);
    const size_t element = state->element_bytes();
    for (uint32_t page = 0; page < 3; ++page) fill_page(*state, page, 9);
    const std::vector<std::byte> before = page_bytes(*state, 0);
    state->clear_page(1, 10);
    EXPECT_EQ(page_bytes(*state, 0), before);
    EXPECT_EQ(page_bytes(*state, 2), before);
    for (uint32_t cell = 0; cell < kPageCells; ++cell) {
      for (uint32_t d = 0; d < 8; ++d) {
        const std::byte k = state->k(0, 1, 1)[(d * kPageCells + cell) * element];
        const std::byte v = state->v(0, 1, 1)[(cell * 8 + d) * element + element - 1];
        EXPECT_EQ(k == std::byte{0}, cell >= 10) << cell << " " << d;
        EXPECT_EQ(v == std::byte{0}, cell >= 10) << cell << " " << d;
      }
    }
  }
}

TEST(CpuState, CopiesPagesAndSlots) {
  const auto state = make();
  fill_page(*state, 0, 1);
  fill_page(*state, 2, 50);
  const std::vector<std::byte> from = page_bytes(*state, 2);
  state->copy_page(2, 0);
  EXPECT_EQ(page_bytes(*state, 0), from);
  EXPECT_EQ(page_bytes(*state, 2), from);
  for (uint32_t c = 0; c < 70; ++c) state->conv_column(0, 1, c)[4] = float(c);
  state->copy_slot(1, 2);
  const uint32_t ring = state->conv_ring(0);
  EXPECT_EQ(ring, kConvHistory + 2);
  EXPECT_EQ(state->conv_column(0, 2, 69)[4], 69);
  EXPECT_EQ(state->conv_column(0, 2, 69 - ring + 1)[4], float(69 - ring + 1));
  EXPECT_EQ(state->conv_column(0, 0, 69)[4], 0);
}

TEST(CpuState, SnapshotsMoveBetweenSlotsAndCells) {
  const auto state = make();
  for (uint32_t cell = 0; cell < 100; ++cell) {
    for (uint32_t c = 0; c < 5; ++c) state->conv_column(0, 0, cell)[c] = float(100 * cell + c);
    for (uint32_t c = 0; c < 4; ++c) state->conv_column(1, 0, cell)[c] = float(-100.0 * cell - c);
  }
  std::vector<std::byte> bytes(state->snapshot_bytes());
  ASSERT_EQ(bytes.size(), (2 * 5 + 1 * 4) * sizeof(float));
  state->save_snapshot(0, 77, bytes);
  float values[14];
  std::memcpy(values, bytes.data(), sizeof values);
  EXPECT_EQ(values[0], 7500);    // layer 0, cell 75
  EXPECT_EQ(values[5], 7600);    // cell 76
  EXPECT_EQ(values[10], -7600);  // layer 1
  state->load_snapshot(2, 3, bytes);
  EXPECT_EQ(state->conv_column(0, 2, 1)[4], 7504);
  EXPECT_EQ(state->conv_column(0, 2, 2)[0], 7600);
  EXPECT_EQ(state->conv_column(1, 2, 2)[3], -7603);
}

TEST(CpuState, SnapshotOfTheFirstCellsIsPaddedWithZeros) {
  const auto state = make();
  for (uint32_t cell = 1; cell < state->conv_ring(0); ++cell) {
    std::fill_n(state->conv_column(0, 0, cell), 5, 9.0f);  // left by another sequence
  }
  std::fill_n(state->conv_column(0, 0, 0), 5, 1.0f);
  std::vector<std::byte> bytes(state->snapshot_bytes());
  state->save_snapshot(0, 1, bytes);
  float values[14];
  std::memcpy(values, bytes.data(), sizeof values);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[5], 1);
}

TEST(CpuState, RefusesMoreThanCanBeReserved) {
  auto state = CpuState::make({.kv_layers = {{1u << 20, 1u << 20}}, .conv_layers = {}},
                              {.n_pages = UINT32_MAX});
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, ErrorCode::out_of_memory);
  state = CpuState::make({.kv_layers = {{1u << 10, 1u << 10}}, .conv_layers = {}},
                         {.n_pages = 1u << 20});
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(state.error().message.find(" 281474976710656 bytes"), std::string::npos)
      << state.error().message;
}

TEST(CpuState, MayBeEmpty) {
  const auto state = tests::must(CpuState::make({}, {}));
  EXPECT_EQ(state->bytes(), 0u);
  state->copy_slot(0, 0);
}

// A sequence that is cut back, or moved to another slot by a snapshot, goes on as if nothing had
// been.
TEST(CpuState, TruncatedAndRestoredSequencesGoOn) {
  tests::TinyPlan tiny = tests::make_tiny_plan({TensorType::f32});
  const auto backend = make_cpu_backend({tests::available_tiers().back(), 2});
  const auto executable = tests::must(backend->prepare(tiny.plan, {.max_rows = 128}));
  const auto state =
      tests::must(backend->make_state(tiny.plan.state, {.n_pages = 4, .n_slots = 2}));
  const std::vector<uint32_t> pages = {2, 0};
  const auto run = [&](uint32_t slot, uint32_t first, uint32_t n) {
    std::vector<Row> rows;
    for (uint32_t i = first; i < first + n; ++i) {
      rows.push_back({.token = int32_t(i * 7 % 96),
                      .cell = i,
                      .position = i,
                      .last_visible = i,
                      .sequence = 0,
                      .wants_output = i + 1 == first + n});
    }
    const SequenceView views[] = {{slot, pages}};
    auto done = executable->submit({rows, views}, *state);
    if (!done) throw std::runtime_error(done.error().text());
    return std::vector<float>(executable->logits().begin(), executable->logits().end());
  };
  const std::vector<float> expected = run(0, 0, 60);
  run(0, 60, 1);
  run(0, 61, kConvHistory - 2);
  EXPECT_EQ(run(0, 59, 1), expected) << "cut back by the longest allowed distance";
  std::vector<std::byte> snapshot(state->snapshot_bytes());
  state->save_snapshot(0, 59, snapshot);
  state->load_snapshot(1, 59, snapshot);
  EXPECT_EQ(run(1, 59, 1), expected);
}

}  // namespace
}  // namespace cera::cpu
