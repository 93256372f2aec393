#pragma once
// Which page of the key/value cache belongs to whom. Pages are shared by reference between
// sequences with a common beginning; a page that more than one of them holds is never written.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "base/error.h"

namespace cera {

/// Reference counts of the pages of one StateMemory, and the recurrent state at their ends. Not
/// thread-safe.
class PagePool {
 public:
  explicit PagePool(StateMemory& memory);

  /// A page of zeros with one reference; context_full when none is left.
  Result<uint32_t> allocate();
  void retain(uint32_t page);
  /// The last reference frees the page and its snapshot.
  void release(uint32_t page);

  uint32_t references(uint32_t page) const { return pages_[page].references; }
  uint32_t free_pages() const { return uint32_t(free_.size()); }
  uint32_t n_pages() const { return uint32_t(pages_.size()); }

  /// Recurrent state after the page's last cell (StateMemory::save_snapshot); empty when there is
  /// none.
  std::vector<std::byte>& snapshot(uint32_t page) { return pages_[page].snapshot; }
  StateMemory& memory() { return memory_; }

 private:
  struct Page {
    uint32_t references = 0;
    bool used = false;  // may hold something else than zeros
    std::vector<std::byte> snapshot;
  };

  StateMemory& memory_;
  std::vector<Page> pages_;
  std::vector<uint32_t> free_;  // the next one at the back
};

/// Recurrent-state slots, one per sequence alive.
class SlotPool {
 public:
  explicit SlotPool(uint32_t n_slots);
  Result<uint32_t> allocate();
  void release(uint32_t slot);

 private:
  std::vector<uint32_t> free_;
};

}  // namespace cera
