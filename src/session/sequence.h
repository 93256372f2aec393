#pragma once
// One sequence's cache: its page table, its recurrent slot and its length, the one position counter
// there is.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "ops/step.h"
#include "session/pages.h"

namespace cera {

/// What the sequences of one Runner share.
struct SequenceStore {
  SequenceStore(StateMemory& state, bool has_recurrent_state, uint32_t cells_per_sequence)
      : pages(state),
        slots(state.size().n_slots),
        memory(state),
        recurrent(has_recurrent_state),
        max_cells(cells_per_sequence) {}
  PagePool pages;
  SlotPool slots;
  StateMemory& memory;
  bool recurrent;
  uint32_t max_cells;
};

/// Move-only; must not outlive its store. Not thread-safe.
class Sequence {
 public:
  /// An empty one; context_full when no slot is free.
  static Result<Sequence> make(SequenceStore& store);
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  /// Cells in use: the next token goes to cell length(), at this position.
  uint32_t length() const { return length_; }
  uint32_t max_length() const { return store_->max_cells; }

  /// Makes cells [length, length + n) writable by the next step: allocates pages, and takes a copy
  /// of a last page that is shared. On an error (context_full) nothing has changed.
  Result<void> prepare(uint32_t n);
  /// The step ran: length grows by n, which was prepared.
  void commit(uint32_t n);
  /// The step failed after prepare and may have written some of its cells. Like truncate(length()),
  /// and for the same reason the length may fall.
  void abandon();
  /// Valid until the sequence changes.
  SequenceView view() const { return {slot_, pages_}; }

  /// Another sequence with the same past; pages are shared until one of both writes.
  Result<Sequence> fork() const;

  /// Drops the cells from n on and returns the new length. It is n, or less with recurrent state
  /// that is no longer at hand: then the nearest earlier page end with a snapshot (at worst 0), and
  /// the caller feeds the tokens in between again.
  uint32_t truncate(uint32_t n);

 private:
  explicit Sequence(SequenceStore& store, uint32_t slot);
  Result<void> own_last_page();
  void release_pages_from(size_t first);
  void cut_to(uint32_t n);
  uint32_t restore_recurrent_state(uint32_t n);
  void save_snapshots(uint32_t old_length);

  SequenceStore* store_;  // null after a move
  uint32_t slot_;
  std::vector<uint32_t> pages_;
  uint32_t length_ = 0;
  bool tail_dirty_ = false;     // the last page may hold something in cells from length_ on
  uint32_t high_water_ = 0;     // one past the highest cell that the recurrent ring may have seen
  uint32_t history_floor_ = 0;  // the ring knows nothing before this cell
};

}  // namespace cera
