#pragma once
// Runs sequences through a backend in a given order of steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <random>

#include "backends/backend.h"
#include "backends/reference.h"
#include "base/checked.h"

namespace cera::tests {

/// The next n_rows cells of one sequence.
struct Piece {
  uint32_t sequence, n_rows;
};
/// Each step is a list of pieces.
using Schedule = std::vector<std::vector<Piece>>;

/// Sequence 0 alone, in chunks; the last one may be shorter.
inline Schedule chunked(uint32_t n_cells, uint32_t chunk) {
  Schedule schedule;
  for (uint32_t cell = 0; cell < n_cells; cell += chunk) {
    schedule.push_back({{0, std::min(chunk, n_cells - cell)}});
  }
  return schedule;
}

inline uint32_t most_rows(const Schedule& schedule) {
  uint32_t most = 0;
  for (const auto& pieces : schedule) {
    uint32_t n = 0;
    for (const Piece& piece : pieces) n += piece.n_rows;
    most = std::max(most, n);
  }
  return most;
}

/// How many cells the schedule gives each sequence.
inline std::vector<uint32_t> cells_by_sequence(const Schedule& schedule) {
  std::vector<uint32_t> n_cells;
  for (const auto& pieces : schedule) {
    for (const Piece& piece : pieces) {
      if (piece.sequence >= n_cells.size()) n_cells.resize(piece.sequence + 1);
      n_cells[piece.sequence] += piece.n_rows;
    }
  }
  return n_cells;
}

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return std::move(*result);
}

class Harness {
 public:
  /// Pages are dealt in random order, and those not written yet hold nonsense that must not matter.
  Harness(Backend& backend, const Plan& plan, KvType kv_type, std::vector<TestSequence> sequences,
          uint32_t max_rows, uint32_t page_seed = 1)
      : sequences_(std::move(sequences)), next_cell_(sequences_.size()) {
    std::vector<uint32_t> free;
    uint32_t n_pages = 0;
    for (const TestSequence& s : sequences_) n_pages += div_up(s.size(), kPageCells);
    for (uint32_t page = 0; page < n_pages; ++page) free.push_back(page);
    std::shuffle(free.begin(), free.end(), std::minstd_rand(page_seed));
    for (const TestSequence& s : sequences_) {
      pages_.emplace_back(free.end() - div_up(s.size(), kPageCells), free.end());
      free.resize(free.size() - pages_.back().size());
    }
    executable_ = must(backend.prepare(plan, {.max_rows = max_rows, .max_outputs = max_rows}));
    state_ = must(backend.make_state(
        plan.state,
        {.n_pages = n_pages, .n_slots = uint32_t(sequences_.size()), .kv_type = kv_type}));
    vocab_ = plan.vocab_size;
  }

  /// Runs one step and keeps the outputs of the cells that are wanted.
  void step(const std::vector<Piece>& pieces) {
    std::vector<Row> rows;
    std::vector<SequenceView> views;
    for (uint32_t i = 0; i < sequences_.size(); ++i) views.push_back({i, pages_[i]});
    std::vector<std::pair<uint32_t, uint32_t>> wanted;  // sequence, cell
    for (const Piece& piece : pieces) {
      const TestSequence& s = sequences_[piece.sequence];
      for (uint32_t i = 0; i < piece.n_rows; ++i) {
        const uint32_t cell = next_cell_[piece.sequence]++;
        rows.push_back({.token = s.tokens.at(cell),
                        .cell = cell,
                        .position = cell + s.position_offset,
                        .last_visible = s.visible(cell),
                        .sequence = piece.sequence,
                        .wants_output = s.wants(cell)});
        if (s.wants(cell)) wanted.emplace_back(piece.sequence, cell);
      }
    }
    must_run({rows, views});
    const std::span<const float> logits = executable_->logits();
    ASSERT_EQ(logits.size(), wanted.size() * vocab_);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto row = logits.subspan(i * vocab_, vocab_);
      outputs_[wanted[i].first][wanted[i].second].assign(row.begin(), row.end());
    }
  }
  void run(const Schedule& schedule) {
    for (const auto& pieces : schedule) step(pieces);
  }

  const Outputs& outputs(uint32_t sequence) { return outputs_[sequence]; }
  StateMemory& state() { return *state_; }
  Executable& executable() { return *executable_; }

 private:
  void must_run(const Step& step) {
    auto done = executable_->submit(step, *state_);
    if (!done) throw std::runtime_error(done.error().text());
  }

  std::vector<TestSequence> sequences_;
  std::vector<uint32_t> next_cell_;
  std::vector<std::vector<uint32_t>> pages_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<StateMemory> state_;
  uint32_t vocab_ = 0;
  std::map<uint32_t, Outputs> outputs_;
};

/// Same bits, or both NaN (whose payload depends on the order of operands).
inline bool same_value(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

/// tolerance 0: the same bits. Otherwise relative to the largest expected value of the row.
inline void expect_outputs(const Outputs& actual, const Outputs& expected, float tolerance,
                           const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (const auto& [cell, row] : expected) {
    const auto found = actual.find(cell);
    ASSERT_TRUE(found != actual.end()) << what << ", cell " << cell;
    float scale = 0;
    for (float x : row) scale = std::max(scale, std::abs(x));
    for (size_t i = 0; i < row.size(); ++i) {
      const float a = found->second.at(i), e = row[i];
      const bool good = tolerance == 0 ? same_value(a, e) : std::abs(a - e) <= tolerance * scale;
      ASSERT_TRUE(good) << what << ", cell " << cell << ", column " << i << ": " << a
                        << " instead of " << e << " (difference " << a - e << ")";
    }
  }
}

}  // namespace cera::tests
