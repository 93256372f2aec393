#include "session/pages.h"

#include <utility>

#include "base/assert.h"

namespace cera {

PagePool::PagePool(StateMemory& memory) : memory_(memory), pages_(memory.size().n_pages) {
  free_.reserve(pages_.size());
  for (uint32_t page = n_pages(); page-- > 0;) free_.push_back(page);
}

Result<uint32_t> PagePool::allocate() {
  if (free_.empty())
    return fail(ErrorCode::context_full, "", "all {} pages of {} tokens are in use", n_pages(),
                kPageCells);
  const uint32_t id = free_.back();
  free_.pop_back();
  Page& page = pages_[id];
  if (std::exchange(page.used, true)) memory_.clear_page(id, 0);
  page.references = 1;
  return id;
}

void PagePool::retain(uint32_t page) {
  CERA_ASSERT(pages_[page].references > 0);
  ++pages_[page].references;
}

void PagePool::release(uint32_t id) {
  Page& page = pages_[id];
  CERA_ASSERT(page.references > 0);
  if (--page.references > 0) return;
  page.snapshot.clear();
  page.snapshot.shrink_to_fit();
  free_.push_back(id);  // capacity was reserved
}

SlotPool::SlotPool(uint32_t n_slots) {
  free_.reserve(n_slots);
  for (uint32_t slot = n_slots; slot-- > 0;) free_.push_back(slot);
}

Result<uint32_t> SlotPool::allocate() {
  if (free_.empty())
    return fail(ErrorCode::context_full, "",
                "no room for another sequence; open with more of them");
  const uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::release(uint32_t slot) {
  free_.push_back(slot);
}

}  // namespace cera
