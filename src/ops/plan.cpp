#include "ops/plan.h"

#include <limits>

#include "base/assert.h"
#include "ops/buffer_uses.h"

namespace cera {
namespace {

constexpr uint32_t kMaxTaps = 64;

/// "blk.3.attn_q.weight" -> "attn_q"
std::string short_name(const std::string& tensor) {
  std::string name = tensor;
  if (name.starts_with("blk.")) {
    const size_t dot = name.find('.', 4);
    if (dot != std::string::npos) name = name.substr(dot + 1);
  }
  if (name.ends_with(".weight")) name.resize(name.size() - 7);
  return name;
}

}  // namespace

PlanBuilder::PlanBuilder(uint32_t vocab_size) {
  plan_.vocab_size = vocab_size;
}

void PlanBuilder::layer(int32_t index) {
  layer_ = index;
}

void PlanBuilder::mistake(std::string message) {
  std::string where = layer_ >= 0 ? fmt::format("layer {}", layer_) : std::string();
  mistakes_.push_back({ErrorCode::malformed, std::move(message), std::move(where)});
}

BufferId PlanBuilder::add_buffer(uint32_t width, RowSet rows, std::string name) {
  plan_.buffers.push_back({width, rows, std::move(name)});
  return BufferId(plan_.buffers.size() - 1);
}

void PlanBuilder::add(Op op) {
  plan_.ops.push_back(std::move(op));
  plan_.layer_of_op.push_back(layer_);
}

uint32_t PlanBuilder::add_rope(RopeSpec rope) {
  const size_t pairs = rope.n_dims / 2;
  if (rope.n_dims % 2 != 0 || rope.frequencies.size() != pairs ||
      (rope.pairs == RopePairs::none) != (rope.n_dims == 0)) {
    mistake(fmt::format("rope: {} dimensions need half as many frequencies, but there are {}",
                        rope.n_dims, rope.frequencies.size()));
  }
  plan_.ropes.push_back(std::move(rope));
  return uint32_t(plan_.ropes.size() - 1);
}

uint32_t PlanBuilder::add_kv_layer(HeadShape heads) {
  plan_.state.kv_layers.push_back({heads.n_kv_heads, heads.head_dim});
  return uint32_t(plan_.state.kv_layers.size() - 1);
}

uint32_t PlanBuilder::add_conv_layer(uint32_t width, uint32_t taps) {
  if (width == 0 || taps < 2 || taps > kMaxTaps) {
    mistake(fmt::format("short_conv: width {} and {} taps; width must be positive and taps 2 to {}",
                        width, taps, kMaxTaps));
  }
  plan_.state.conv_layers.push_back({width, taps});
  return uint32_t(plan_.state.conv_layers.size() - 1);
}

BufferId PlanBuilder::embed(const Weight& table, float scale) {
  if (table.n_rows != plan_.vocab_size) {
    mistake(fmt::format("{} has {} rows, but the vocabulary has {} tokens", table.name,
                        table.n_rows, plan_.vocab_size));
  }
  const BufferId out = add_buffer(table.n_cols, RowSet::step, "x");
  add(EmbedOp{table, out, scale});
  return out;
}

void PlanBuilder::check_input(BufferId in, const NormSpec& norm, const Weight& weight) {
  const uint32_t width = plan_.buffers.at(in).width;
  if (weight.n_cols != width) {
    mistake(fmt::format("{} has {} columns, but its input \"{}\" is {} wide", weight.name,
                        weight.n_cols, plan_.buffers[in].name, width));
  }
  if (norm && norm.gain.size() != width) {
    mistake(fmt::format("the norm before {} has {} gains, but its input \"{}\" is {} wide",
                        weight.name, norm.gain.size(), plan_.buffers[in].name, width));
  }
}

/// The checks that linear and linear_to share; returns the width of the result.
uint32_t PlanBuilder::check_linear(BufferId in, const std::vector<Weight>& weights,
                                   const LinearOptions& options) {
  CERA_ASSERT(!weights.empty() && weights.size() <= 3);
  CERA_ASSERT(options.biases.empty() || options.biases.size() == weights.size());
  uint64_t width = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Weight& weight = weights[i];
    check_input(in, options.norm, weight);
    width += weight.n_rows;
    if (options.biases.empty() || options.biases[i].empty()) continue;
    if (options.biases[i].size() != weight.n_rows) {
      mistake(fmt::format("the bias of {} has {} elements, but the matrix has {} rows", weight.name,
                          options.biases[i].size(), weight.n_rows));
    }
  }
  if (width == 0 || width > std::numeric_limits<uint32_t>::max()) {
    mistake(fmt::format("{}: {} output rows", weights[0].name, width));
  }
  return uint32_t(width);
}

BufferId PlanBuilder::linear(BufferId in, std::vector<Weight> weights, LinearOptions options) {
  const uint32_t width = check_linear(in, weights, options);
  std::string name;
  for (const Weight& weight : weights) name += (name.empty() ? "" : "+") + short_name(weight.name);
  const BufferId out = add_buffer(width, plan_.buffers[in].rows, std::move(name));
  add(LinearOp{in, out, options.norm, std::move(weights), std::move(options.biases),
               options.activation, options.scale, false});
  return out;
}

void PlanBuilder::linear_to(BufferId out, BufferId in, const Weight& weight,
                            LinearOptions options) {
  CERA_ASSERT(in != out && plan_.buffers.at(in).rows == plan_.buffers.at(out).rows);
  const uint32_t width = check_linear(in, {weight}, options);
  if (width != plan_.buffers[out].width) {
    mistake(fmt::format("{} has {} rows, but is added to \"{}\", which is {} wide", weight.name,
                        width, plan_.buffers[out].name, plan_.buffers[out].width));
  }
  add(LinearOp{in,
               out,
               options.norm,
               {weight},
               std::move(options.biases),
               options.activation,
               options.scale,
               true});
}

BufferId PlanBuilder::linear_glu(BufferId in, const Weight& gate, const Weight& up, NormSpec norm,
                                 Activation activation) {
  check_input(in, norm, gate);
  check_input(in, norm, up);
  if (gate.n_rows != up.n_rows || gate.n_rows == 0) {
    mistake(fmt::format("{} has {} rows and {} has {}: they must be equal", gate.name, gate.n_rows,
                        up.name, up.n_rows));
  }
  const BufferId out = add_buffer(gate.n_rows, plan_.buffers[in].rows, short_name(gate.name));
  add(LinearGluOp{in, out, norm, gate, up, activation});
  return out;
}

void PlanBuilder::check_heads(BufferId qkv, uint32_t kv_layer, HeadShape heads, const char* op) {
  const StateSpec::KvLayer& kv = plan_.state.kv_layers.at(kv_layer);
  CERA_ASSERT(kv.n_kv_heads == heads.n_kv_heads && kv.head_dim == heads.head_dim);
  if (heads.n_kv_heads == 0 || heads.head_dim == 0 || heads.n_heads == 0 ||
      heads.n_heads % heads.n_kv_heads != 0) {
    mistake(
        fmt::format("{}: {} query heads, {} key/value heads of {} elements: the first must be "
                    "a multiple of the second, and none may be 0",
                    op, heads.n_heads, heads.n_kv_heads, heads.head_dim));
    return;
  }
  const Plan::Buffer& buffer = plan_.buffers.at(qkv);
  CERA_ASSERT(buffer.rows == RowSet::step);
  // At most 3 * 2^32 * 2^32 / 2: does not fit 64 bits, so compare by division.
  const uint64_t n = uint64_t(heads.n_heads) + 2 * uint64_t(heads.n_kv_heads);
  if (buffer.width % heads.head_dim != 0 || buffer.width / heads.head_dim != n) {
    mistake(fmt::format(
        "{}: \"{}\" is {} wide, but {} query and 2 x {} key/value heads of {} "
        "elements do not add up to that",
        op, buffer.name, buffer.width, heads.n_heads, heads.n_kv_heads, heads.head_dim));
  }
}

void PlanBuilder::rope_store(BufferId qkv, uint32_t kv_layer, HeadShape heads,
                             RopeStoreOptions options) {
  check_heads(qkv, kv_layer, heads, "rope_store");
  const auto check_norm = [&](const NormSpec& norm, uint32_t n_heads, const char* name) {
    const uint64_t full = uint64_t(n_heads) * heads.head_dim;
    if (!norm || norm.gain.size() == heads.head_dim || norm.gain.size() == full) return;
    mistake(fmt::format("the {} norm has {} gains; expected {} (per head) or {} (all heads)", name,
                        norm.gain.size(), heads.head_dim, full));
  };
  check_norm(options.q_norm, heads.n_heads, "q");
  check_norm(options.k_norm, heads.n_kv_heads, "k");
  const RopeSpec& rope = plan_.ropes.at(options.rope);
  if (rope.n_dims > heads.head_dim) {
    mistake(
        fmt::format("rope turns {} dimensions, but a head has {}", rope.n_dims, heads.head_dim));
  }
  add(RopeStoreOp{qkv, kv_layer, heads.n_heads, heads.n_kv_heads, heads.head_dim, options.q_norm,
                  options.k_norm, options.rope});
}

BufferId PlanBuilder::attention(BufferId qkv, uint32_t kv_layer, HeadShape heads, float scale) {
  check_heads(qkv, kv_layer, heads, "attention");
  // An overflow has failed check_heads: the product is part of the buffer's width.
  const BufferId out = add_buffer(heads.n_heads * heads.head_dim, RowSet::step, "attention");
  add(AttentionOp{qkv, out, kv_layer, heads.n_heads, heads.n_kv_heads, heads.head_dim, scale});
  return out;
}

BufferId PlanBuilder::short_conv(BufferId bcx, uint32_t conv_layer, Vector kernel) {
  const auto [width, taps] = plan_.state.conv_layers.at(conv_layer);
  const Plan::Buffer& buffer = plan_.buffers.at(bcx);
  CERA_ASSERT(buffer.rows == RowSet::step);
  if (buffer.width != 3 * uint64_t(width)) {
    mistake(fmt::format("short_conv: \"{}\" is {} wide, expected 3 x {}", buffer.name, buffer.width,
                        width));
  }
  if (kernel.size() != uint64_t(width) * taps) {
    mistake(fmt::format("short_conv: the kernel has {} elements, expected {} channels x {} taps",
                        kernel.size(), width, taps));
  }
  const BufferId out = add_buffer(width, RowSet::step, "short_conv");
  add(ShortConvOp{bcx, out, conv_layer, taps, kernel});
  return out;
}

BufferId PlanBuilder::take_rows(BufferId in) {
  CERA_ASSERT(plan_.buffers.at(in).rows == RowSet::step);
  const BufferId out = add_buffer(plan_.buffers[in].width, RowSet::outputs, "outputs");
  add(TakeRowsOp{in, out});
  return out;
}

void PlanBuilder::set_logits(BufferId logits) {
  Plan::Buffer& buffer = plan_.buffers.at(logits);
  CERA_ASSERT(buffer.rows == RowSet::outputs);
  if (buffer.width != plan_.vocab_size) {
    mistake(fmt::format("\"{}\" is {} wide, but the vocabulary has {} tokens", buffer.name,
                        buffer.width, plan_.vocab_size));
  }
  buffer.name = "logits";
  plan_.logits = logits;
}

namespace {

/// Renames buffers so that those of equal shape whose lifetimes do not overlap are one. The logits
/// live to the end.
void merge_buffers(Plan& plan) {
  std::vector<size_t> last_use(plan.buffers.size(), 0);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for_each_buffer(plan.ops[i], [&](BufferId id) { last_use[id] = i; });
  }
  last_use[plan.logits] = plan.ops.size();

  std::vector<Plan::Buffer> merged;
  std::vector<size_t> busy_until;  // by merged buffer
  std::vector<BufferId> new_id(plan.buffers.size(), kNoBuffer);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for_each_buffer(plan.ops[i], [&](BufferId& id) {
      if (new_id[id] == kNoBuffer) {
        const Plan::Buffer& buffer = plan.buffers[id];
        BufferId found = 0;
        while (found < merged.size() &&
               (merged[found].width != buffer.width || merged[found].rows != buffer.rows ||
                busy_until[found] >= i)) {
          ++found;
        }
        if (found == merged.size()) {
          merged.push_back(buffer);
          busy_until.push_back(0);
        }
        busy_until[found] = last_use[id];
        new_id[id] = found;
      }
      id = new_id[id];
    });
  }
  plan.logits = new_id[plan.logits];
  merged[plan.logits].name = "logits";
  plan.buffers = std::move(merged);
}

}  // namespace

Result<Plan> PlanBuilder::finish() {
  CERA_ASSERT(plan_.logits != kNoBuffer);
  if (!mistakes_.empty()) return std::unexpected(mistakes_.front());
  merge_buffers(plan_);
  return std::move(plan_);
}

}  // namespace cera
