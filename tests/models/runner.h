#pragma once
// Runs a Plan on the CPU backend, for tests: sequences with pages of their own, steps of any shape.

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ops/plan.h"

namespace cera::tests {

struct RunnerOptions {
  CpuTier tier = CpuTier::scalar;
  uint32_t n_threads = 1;
  KvType kv_type = KvType::f32;
  uint32_t n_slots = 1;
  uint32_t max_cells = 320;  // of each sequence
};

/// scalar, and the best tier of this machine when it is another one.
inline std::vector<CpuTier> tiers() {
  const CpuTier best = read_cpu_info().best_tier;
  return best == CpuTier::scalar ? std::vector{CpuTier::scalar}
                                 : std::vector{CpuTier::scalar, best};
}

/// Sequence s owns slot s and its own run of pages.
class Runner {
 public:
  Runner(const Plan& plan, RunnerOptions options)
      : plan_(plan),
        pages_per_sequence_((options.max_cells + kPageCells - 1) / kPageCells),
        max_rows_(options.max_cells * options.n_slots),
        backend_(make_cpu_backend({options.tier, options.n_threads})),
        executable_(check(backend_->prepare(plan_, {max_rows_, max_rows_}))),
        state_(check(backend_->make_state(plan_.state, {pages_per_sequence_ * options.n_slots,
                                                        options.n_slots, options.kv_type}))) {
    for (uint32_t page = 0; page < pages_per_sequence_ * options.n_slots; ++page)
      pages_.push_back(page);
  }

  struct Piece {
    uint32_t sequence;
    uint32_t first_cell;
    std::vector<int32_t> tokens;
  };

  /// One step; the logits [rows, vocab] of all its rows, in order.
  std::vector<float> step(const std::vector<Piece>& pieces) {
    std::vector<Row> rows;
    std::vector<SequenceView> sequences;
    for (const Piece& piece : pieces) {
      for (uint32_t i = 0; i < piece.tokens.size(); ++i) {
        const uint32_t cell = piece.first_cell + i;
        rows.push_back({piece.tokens[i], cell, cell, cell, uint32_t(sequences.size()), true});
      }
      sequences.push_back({piece.sequence, pages_of(piece.sequence)});
    }
    check(executable_->submit({rows, sequences}, *state_));
    const std::span<const float> logits = executable_->logits();
    return {logits.begin(), logits.end()};
  }

  /// The logits of all tokens, fed in steps of `chunk` from `first_cell` on.
  std::vector<float> feed(const std::vector<int32_t>& tokens, uint32_t chunk, uint32_t sequence = 0,
                          uint32_t first_cell = 0) {
    std::vector<float> logits;
    for (size_t start = 0; start < tokens.size(); start += chunk) {
      const size_t end = std::min(tokens.size(), start + chunk);
      const std::vector<float> part = step({{sequence,
                                             first_cell + uint32_t(start),
                                             {tokens.begin() + start, tokens.begin() + end}}});
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }

  StateMemory& state() { return *state_; }
  std::span<const uint32_t> pages_of(uint32_t sequence) const {
    return std::span(pages_).subspan(sequence * pages_per_sequence_, pages_per_sequence_);
  }

 private:
  template <class T>
  static T check(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().text());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }

  Plan plan_;
  uint32_t pages_per_sequence_, max_rows_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<StateMemory> state_;
  std::vector<uint32_t> pages_;
};

/// Bits, so that NaN equals itself and -0 does not equal 0.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline float largest(const std::vector<float>& values) {
  float most = 0;
  for (const float v : values) most = std::max(most, std::abs(v));
  return most;
}

/// NaN counts as infinitely wrong.
inline float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= most)) most = std::isnan(difference) ? INFINITY : difference;
  }
  return most;
}

}  // namespace cera::tests
