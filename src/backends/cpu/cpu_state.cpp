#include "backends/cpu/cpu_state.h"

#include <sys/mman.h>

#include <cstring>

#include "base/assert.h"
#include "base/checked.h"

namespace cera::cpu {
namespace {

/// Adds up the sizes of parts; an overflow sticks.
class Layout {
 public:
  /// Reserves n bytes, given as factors, at a 64-byte boundary; returns their offset.
  size_t add(std::initializer_list<size_t> factors) {
    std::optional<size_t> bytes = 1;
    for (size_t f : factors) bytes = bytes ? checked_mul(*bytes, f) : bytes;
    const size_t offset = total_.value_or(0);
    bytes = bytes ? checked_add(*bytes, size_t{63}) : bytes;
    total_ = total_ && bytes ? checked_add(*total_, *bytes / 64 * 64) : std::nullopt;
    return offset;
  }
  std::optional<size_t> total() const { return total_; }

 private:
  std::optional<size_t> total_ = 0;
};

}  // namespace

Result<std::unique_ptr<CpuState>> CpuState::make(const StateSpec& spec, const StateSize& size) {
  std::unique_ptr<CpuState> state(new CpuState(spec, size));
  Layout layout;
  for (const StateSpec::KvLayer& kv : spec.kv_layers) {
    for (std::vector<size_t>* offsets : {&state->k_offset_, &state->v_offset_}) {
      offsets->push_back(layout.add(
          {size.n_pages, kv.n_kv_heads, kv.head_dim, kPageCells, state->element_bytes()}));
    }
  }
  for (uint32_t i = 0; i < spec.conv_layers.size(); ++i) {
    state->conv_offset_.push_back(
        layout.add({size.n_slots, state->conv_ring(i), spec.conv_layers[i].width, sizeof(float)}));
  }
  if (!layout.total()) {
    return fail(
        ErrorCode::out_of_memory, "state",
        "{} pages and {} slots need more memory than can be addressed; use a smaller context",
        size.n_pages, size.n_slots);
  }
  state->reserved_bytes_ = *layout.total();
  if (state->reserved_bytes_ == 0) return state;
  void* memory = mmap(nullptr, state->reserved_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, "state",
                "cannot reserve {} bytes for the key/value cache; use a smaller context",
                state->reserved_bytes_);
  }
  state->memory_ = static_cast<std::byte*>(memory);
  return state;
}

CpuState::~CpuState() {
  if (memory_ != nullptr) munmap(memory_, reserved_bytes_);
}

std::byte* CpuState::k(uint32_t kv_layer, uint32_t page, uint32_t kv_head) {
  const StateSpec::KvLayer& kv = spec_.kv_layers[kv_layer];
  const size_t head = size_t(page) * kv.n_kv_heads + kv_head;
  return memory_ + k_offset_[kv_layer] + head * kv.head_dim * kPageCells * element_bytes();
}

std::byte* CpuState::v(uint32_t kv_layer, uint32_t page, uint32_t kv_head) {
  return k(kv_layer, page, kv_head) - k_offset_[kv_layer] + v_offset_[kv_layer];
}

uint32_t CpuState::conv_ring(uint32_t conv_layer) const {
  return kConvHistory + spec_.conv_layers[conv_layer].taps - 1;
}

float* CpuState::conv_column(uint32_t conv_layer, uint32_t slot, uint32_t cell) {
  const uint32_t ring = conv_ring(conv_layer);
  const size_t column = size_t(slot) * ring + cell % ring;
  std::byte* first = memory_ + conv_offset_[conv_layer];
  return reinterpret_cast<float*>(first) + column * spec_.conv_layers[conv_layer].width;
}

void CpuState::clear_page(uint32_t page, uint32_t first_cell) {
  CERA_ASSERT(page < size_.n_pages && first_cell <= kPageCells);
  const size_t element = element_bytes();
  const size_t tail = (kPageCells - first_cell) * element;
  for (uint32_t layer = 0; layer < spec_.kv_layers.size(); ++layer) {
    const auto [n_kv_heads, head_dim] = spec_.kv_layers[layer];
    for (uint32_t h = 0; h < n_kv_heads; ++h) {
      std::byte* k_row = k(layer, page, h) + first_cell * element;
      for (uint32_t d = 0; d < head_dim; ++d, k_row += kPageCells * element) {
        std::memset(k_row, 0, tail);
      }
      std::memset(v(layer, page, h) + size_t(first_cell) * head_dim * element, 0, tail * head_dim);
    }
  }
}

void CpuState::copy_page(uint32_t from, uint32_t to) {
  CERA_ASSERT(from < size_.n_pages && to < size_.n_pages);
  for (uint32_t layer = 0; layer < spec_.kv_layers.size(); ++layer) {
    const auto [n_kv_heads, head_dim] = spec_.kv_layers[layer];
    const size_t bytes = size_t(n_kv_heads) * head_dim * kPageCells * element_bytes();
    if (bytes == 0 || from == to) continue;
    std::memcpy(k(layer, to, 0), k(layer, from, 0), bytes);
    std::memcpy(v(layer, to, 0), v(layer, from, 0), bytes);
  }
}

void CpuState::copy_slot(uint32_t from, uint32_t to) {
  CERA_ASSERT(from < size_.n_slots && to < size_.n_slots);
  if (from == to) return;
  for (uint32_t layer = 0; layer < spec_.conv_layers.size(); ++layer) {
    const size_t n = size_t(conv_ring(layer)) * spec_.conv_layers[layer].width;
    std::memcpy(conv_column(layer, to, 0), conv_column(layer, from, 0), n * sizeof(float));
  }
}

size_t CpuState::snapshot_bytes() const {
  size_t n = 0;
  for (const auto [width, taps] : spec_.conv_layers) n += size_t(taps - 1) * width;
  return n * sizeof(float);
}

void CpuState::save_snapshot(uint32_t slot, uint32_t next_cell, std::span<std::byte> to) const {
  CERA_ASSERT(slot < size_.n_slots && to.size() == snapshot_bytes());
  std::byte* p = to.data();
  for (uint32_t layer = 0; layer < spec_.conv_layers.size(); ++layer) {
    const auto [width, taps] = spec_.conv_layers[layer];
    const size_t bytes = width * sizeof(float);
    for (uint32_t back = taps - 1; back > 0; --back, p += bytes) {
      if (back > next_cell) {
        std::memset(p, 0, bytes);
      } else {
        // Reading only: the non-const accessor spares a second copy of it.
        std::memcpy(p, const_cast<CpuState*>(this)->conv_column(layer, slot, next_cell - back),
                    bytes);
      }
    }
  }
}

void CpuState::load_snapshot(uint32_t slot, uint32_t next_cell, std::span<const std::byte> from) {
  CERA_ASSERT(slot < size_.n_slots && from.size() == snapshot_bytes());
  const std::byte* p = from.data();
  for (uint32_t layer = 0; layer < spec_.conv_layers.size(); ++layer) {
    const auto [width, taps] = spec_.conv_layers[layer];
    const size_t bytes = width * sizeof(float);
    for (uint32_t back = taps - 1; back > 0; --back, p += bytes) {
      if (back <= next_cell) std::memcpy(conv_column(layer, slot, next_cell - back), p, bytes);
    }
  }
}

}  // namespace cera::cpu
