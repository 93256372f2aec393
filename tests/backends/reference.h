#pragma once
// Runs a Plan by the scalar definitions of src/ops alone: one sequence, all rows in one go, plain
// loops. What every backend is compared with.

#include <algorithm>
#include <map>
#include <vector>

#include "backends/backend.h"
#include "base/float16.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/plan.h"
#include "ops/rope_store.h"
#include "ops/short_conv.h"

namespace cera::tests {

/// Tokens of one sequence, by cell.
struct TestSequence {
  std::vector<int32_t> tokens;
  uint32_t position_offset = 0;        // position = cell + this
  std::vector<uint32_t> last_visible;  // empty: each cell sees itself and those before
  std::vector<bool> wanted;            // cells whose output is compared; empty: all

  uint32_t size() const { return uint32_t(tokens.size()); }
  uint32_t visible(uint32_t cell) const { return last_visible.empty() ? cell : last_visible[cell]; }
  bool wants(uint32_t cell) const { return wanted.empty() || wanted[cell]; }
};

/// Outputs by cell.
using Outputs = std::map<uint32_t, std::vector<float>>;

class Reference {
 public:
  Reference(const Plan& plan, KvType kv_type, const TestSequence& sequence)
      : plan_(plan), kv_type_(kv_type), sequence_(sequence), n_(sequence.size()) {
    for (const Plan::Buffer& buffer : plan.buffers)
      buffers_.emplace_back(size_t(n_) * buffer.width);
    keys_.resize(plan.state.kv_layers.size());
    values_.resize(plan.state.kv_layers.size());
    for (uint32_t cell = 0; cell < n_; ++cell) {
      rows_.push_back(cell);
      if (sequence.wants(cell)) wanted_.push_back(cell);
    }
  }

  Outputs run() {
    size_t last_state_op = 0;
    for (size_t i = 0; i < plan_.ops.size(); ++i) {
      const Op& op = plan_.ops[i];
      if (std::get_if<RopeStoreOp>(&op) || std::get_if<ShortConvOp>(&op)) last_state_op = i;
    }
    for (size_t i = 0; i < plan_.ops.size(); ++i) {
      // Nothing later depends on the other rows.
      if (i > last_state_op && rows_.size() == n_) rows_ = wanted_;
      std::visit([this](const auto& op) { run_op(op); }, plan_.ops[i]);
    }
    Outputs outputs;
    for (uint32_t i = 0; i < wanted_.size(); ++i) {
      const float* row = at(plan_.logits, i);
      outputs[wanted_[i]] = std::vector<float>(row, row + width(plan_.logits));
    }
    return outputs;
  }

 private:
  uint32_t width(BufferId id) const { return plan_.buffers[id].width; }
  float* at(BufferId id, uint32_t row) { return buffers_[id].data() + size_t(row) * width(id); }

  void run_op(const EmbedOp& op) {
    for (uint32_t row : rows_) {
      const size_t token = size_t(sequence_.tokens[row]);
      type_info(op.table.type)
          .unpack(op.table.data + token * op.table.row_bytes, at(op.out, row), op.table.n_cols);
      for (uint32_t i = 0; i < op.table.n_cols; ++i) at(op.out, row)[i] *= op.scale;
    }
  }
  void run_op(const LinearOp& op) { run_linear(op); }
  void run_op(const LinearGluOp& op) { run_linear(op); }
  template <class LinearLike>
  void run_linear(const LinearLike& op) {
    const bool outputs = plan_.buffers[op.in].rows == RowSet::outputs;
    for (uint32_t i = 0; i < (outputs ? wanted_.size() : rows_.size()); ++i) {
      const uint32_t row = outputs ? i : rows_[i];
      ops::define(op, at(op.in, row), at(op.out, row), 1);
    }
  }
  auto stored() const {
    return [f16 = kv_type_ == KvType::f16](float x) {
      return f16 ? f16_to_f32(ops::store_f16(x)) : x;
    };
  }
  void run_op(const RopeStoreOp& op) {
    std::vector<float>& keys = keys_[op.kv_layer];
    std::vector<float>& values = values_[op.kv_layer];
    const size_t kv_width = size_t(op.n_kv_heads) * op.head_dim;
    keys.resize(n_ * kv_width);
    values.resize(n_ * kv_width);
    for (uint32_t row : rows_) {
      float* qkv = at(op.qkv, row);
      ops::define_rope(op, plan_.ropes[op.rope], row + sequence_.position_offset, qkv);
      const float* k = qkv + size_t(op.n_heads) * op.head_dim;
      std::transform(k, k + kv_width, keys.begin() + ptrdiff_t(row * kv_width), stored());
      std::transform(k + kv_width, k + 2 * kv_width, values.begin() + ptrdiff_t(row * kv_width),
                     stored());
    }
  }
  void run_op(const AttentionOp& op) {
    const size_t kv_width = size_t(op.n_kv_heads) * op.head_dim;
    for (uint32_t row : rows_) {
      for (uint32_t h = 0; h < op.n_heads; ++h) {
        const size_t head = size_t(h / (op.n_heads / op.n_kv_heads)) * op.head_dim;
        const auto read = [&](const std::vector<float>& from) {
          return [&from, head, kv_width](uint32_t cell, uint32_t d) {
            return from[cell * kv_width + head + d];
          };
        };
        ops::define_attention(at(op.qkv, row) + size_t(h) * op.head_dim, op.head_dim, op.scale,
                              sequence_.visible(row), read(keys_[op.kv_layer]),
                              read(values_[op.kv_layer]),
                              at(op.out, row) + size_t(h) * op.head_dim);
      }
    }
  }
  void run_op(const ShortConvOp& op) {
    const uint32_t d = width(op.out);
    std::vector<float> history(size_t(op.taps - 1) * d, 0.0f);
    ops::define_short_conv(op.kernel.data(), op.taps, d, at(op.bcx, 0), at(op.out, 0), n_,
                           history.data());
  }
  void run_op(const TakeRowsOp& op) {
    for (uint32_t i = 0; i < wanted_.size(); ++i) {
      std::copy_n(at(op.in, wanted_[i]), width(op.in), at(op.out, i));
    }
  }

  const Plan& plan_;
  KvType kv_type_;
  const TestSequence& sequence_;
  uint32_t n_;
  std::vector<std::vector<float>> buffers_;
  std::vector<std::vector<float>> keys_, values_;  // by layer: [cell, n_kv_heads * head_dim]
  std::vector<uint32_t> rows_, wanted_;
};

}  // namespace cera::tests
