#include "session/sequence.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/checked.h"

namespace cera {
namespace {

size_t pages_for(uint32_t cells) {
  return div_up(cells, kPageCells);
}

}  // namespace

Result<Sequence> Sequence::make(SequenceStore& store) {
  CERA_TRY(const uint32_t slot, store.slots.allocate());
  return Sequence(store, slot);
}

Sequence::Sequence(SequenceStore& store, uint32_t slot) : store_(&store), slot_(slot) {
  pages_.reserve(pages_for(store.max_cells));
}

Sequence::Sequence(Sequence&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      slot_(other.slot_),
      pages_(std::move(other.pages_)),
      length_(other.length_),
      tail_dirty_(other.tail_dirty_),
      high_water_(other.high_water_),
      history_floor_(other.history_floor_) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(store_, other.store_);
  std::swap(slot_, other.slot_);
  std::swap(pages_, other.pages_);
  std::swap(length_, other.length_);
  std::swap(tail_dirty_, other.tail_dirty_);
  std::swap(high_water_, other.high_water_);
  std::swap(history_floor_, other.history_floor_);
  return *this;
}

Sequence::~Sequence() {
  if (store_ == nullptr) return;
  release_pages_from(0);
  store_->slots.release(slot_);
}

Result<void> Sequence::prepare(uint32_t n) {
  if (n > store_->max_cells - length_)
    return fail(
        ErrorCode::context_full, "",
        "{} tokens after {} do not fit in the context of {}; raise the context size or shorten "
        "the text",
        n, length_, store_->max_cells);
  release_pages_from(pages_for(length_));  // prepared for a step that did not run
  CERA_CHECK(own_last_page());
  const size_t before = pages_.size();
  while (pages_.size() < pages_for(length_ + n)) {
    auto page = store_->pages.allocate();
    if (!page) {
      release_pages_from(before);
      return std::unexpected(std::move(page).error());
    }
    pages_.push_back(*page);
  }
  tail_dirty_ = true;
  high_water_ = std::max(high_water_, length_ + n);
  return {};
}

/// The page of cell length_, when it is partly filled: ours alone, with zeros from that cell on.
Result<void> Sequence::own_last_page() {
  const uint32_t used = length_ % kPageCells;
  if (used == 0) return {};
  uint32_t& last = pages_.back();
  if (store_->pages.references(last) > 1) {
    CERA_TRY(const uint32_t copy, store_->pages.allocate());
    store_->memory.copy_page(last, copy);
    store_->pages.release(std::exchange(last, copy));
    store_->memory.clear_page(last, used);
  } else if (tail_dirty_) {
    store_->memory.clear_page(last, used);
    store_->pages.snapshot(last).clear();
  }
  return {};
}

void Sequence::commit(uint32_t n) {
  const uint32_t old_length = length_;
  length_ += n;
  CERA_ASSERT(tail_dirty_ && pages_.size() == pages_for(length_));
  tail_dirty_ = false;
  if (store_->recurrent) save_snapshots(old_length);
}

/// At the page ends just passed whose state the ring still holds.
void Sequence::save_snapshots(uint32_t old_length) {
  for (size_t page = old_length / kPageCells; page < length_ / kPageCells; ++page) {
    const uint32_t end = uint32_t(page + 1) * kPageCells;
    if (end + kConvHistory < high_water_) continue;
    std::vector<std::byte>& snapshot = store_->pages.snapshot(pages_[page]);
    snapshot.resize(store_->memory.snapshot_bytes());
    store_->memory.save_snapshot(slot_, end, snapshot);
  }
}

Result<Sequence> Sequence::fork() const {
  CERA_TRY(Sequence copy, make(*store_));
  if (store_->recurrent) store_->memory.copy_slot(slot_, copy.slot_);
  for (size_t i = 0; i < pages_for(length_); ++i) {
    store_->pages.retain(pages_[i]);
    copy.pages_.push_back(pages_[i]);
  }
  copy.length_ = length_;
  copy.tail_dirty_ = tail_dirty_;
  copy.high_water_ = high_water_;
  copy.history_floor_ = history_floor_;
  return copy;
}

uint32_t Sequence::truncate(uint32_t n) {
  if (n < length_) cut_to(n);
  return length_;
}

void Sequence::abandon() {
  cut_to(length_);
}

void Sequence::cut_to(uint32_t n) {
  length_ = store_->recurrent ? restore_recurrent_state(n) : n;
  release_pages_from(pages_for(length_));
  tail_dirty_ = true;
}

/// Makes the slot ready for cell n or, failing that, for the nearest earlier page end; returns
/// which.
uint32_t Sequence::restore_recurrent_state(uint32_t n) {
  const uint32_t kept = high_water_ > kConvHistory ? high_water_ - kConvHistory : 0;
  if (n >= std::max(kept, history_floor_)) return n;
  uint32_t end = n / kPageCells * kPageCells;
  while (end > 0 && store_->pages.snapshot(pages_[end / kPageCells - 1]).empty()) end -= kPageCells;
  if (end > 0)
    store_->memory.load_snapshot(slot_, end, store_->pages.snapshot(pages_[end / kPageCells - 1]));
  high_water_ = history_floor_ = end;
  return end;
}

void Sequence::release_pages_from(size_t first) {
  for (size_t i = first; i < pages_.size(); ++i) store_->pages.release(pages_[i]);
  pages_.resize(std::min(first, pages_.size()));
}

}  // namespace cera
