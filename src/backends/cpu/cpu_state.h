#pragma once
// Keys, values and convolution columns in host memory.
//
// Layout, chosen so that the inner loops of attention run along contiguous memory without
// horizontal sums:
//   K of one layer: [page][kv_head][head_dim][kPageCells]   (cells contiguous)
//   V of one layer: [page][kv_head][kPageCells][head_dim]   (channels contiguous)
// Convolution columns of one layer: [slot][kConvHistory + taps - 1][width], cell c at c mod the
// ring's length.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/backend.h"

namespace cera::cpu {

class CpuState final : public StateMemory {
 public:
  /// Memory is reserved, zero-filled and committed by the system page by page as it is touched.
  static Result<std::unique_ptr<CpuState>> make(const StateSpec& spec, const StateSize& size);
  ~CpuState() override;

  const StateSize& size() const override { return size_; }
  void clear_page(uint32_t page, uint32_t first_cell) override;
  void copy_page(uint32_t from, uint32_t to) override;
  void copy_slot(uint32_t from, uint32_t to) override;
  size_t snapshot_bytes() const override;
  void save_snapshot(uint32_t slot, uint32_t next_cell, std::span<std::byte> to) const override;
  void load_snapshot(uint32_t slot, uint32_t next_cell, std::span<const std::byte> from) override;
  size_t bytes() const override { return reserved_bytes_; }

  KvType kv_type() const { return size_.kv_type; }
  size_t element_bytes() const { return size_.kv_type == KvType::f16 ? 2 : 4; }
  /// [head_dim][kPageCells] elements of kv_type
  std::byte* k(uint32_t kv_layer, uint32_t page, uint32_t kv_head);
  /// [kPageCells][head_dim] elements of kv_type
  std::byte* v(uint32_t kv_layer, uint32_t page, uint32_t kv_head);
  uint32_t conv_ring(uint32_t conv_layer) const;  // length of the ring in columns
  /// [width] f32 of the cell's column
  float* conv_column(uint32_t conv_layer, uint32_t slot, uint32_t cell);

 private:
  CpuState(const StateSpec& spec, const StateSize& size) : spec_(spec), size_(size) {}

  StateSpec spec_;
  StateSize size_;
  std::byte* memory_ = nullptr;
  size_t reserved_bytes_ = 0;
  std::vector<size_t> k_offset_, v_offset_, conv_offset_;  // bytes into memory_, by layer
};

}  // namespace cera::cpu
