#pragma once
// The only thing that changes between two runs of a Plan: the rows of this step.

#include <cstdint>
#include <span>

namespace cera {

/// One token of one sequence.
struct Row {
  int32_t token = 0;          // in [0, vocab); checked by the session
  uint32_t cell = 0;          // its index in the sequence's cache, where k and v are written
  uint32_t position = 0;      // for RoPE; equals cell until a context shift
  uint32_t last_visible = 0;  // it attends to cells [0, last_visible]; >= cell
  uint32_t sequence = 0;      // index into Step::sequences
  bool wants_output = false;  // keep this row for the head
};

struct SequenceView {
  uint32_t slot;  // recurrent state of this sequence in the StateMemory
  std::span<const uint32_t>
      pages;  // page number of cells [64 i, 64 i + 64); covers every cell named
};

/// Rows of one sequence are adjacent, in rising consecutive cells. A page that is written by this
/// step is in one sequence's table only. Spans stay valid until the step is done.
struct Step {
  std::span<const Row> rows;
  std::span<const SequenceView> sequences;
};

}  // namespace cera
