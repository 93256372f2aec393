#include <fmt/format.h>

#include "ops/plan.h"

namespace cera {
namespace {

/// Appends the operands of one op to a line.
class OpPrinter {
 public:
  explicit OpPrinter(const Plan& plan) : plan_(plan) {}

  std::string operator()(const EmbedOp& op) const {
    return arrow("", op.out) + matrix(op.table) + factor(op.scale);
  }
  std::string operator()(const LinearOp& op) const {
    std::string text = arrow(buffer(op.in), op.out, op.accumulate) + norm(" norm", op.norm);
    for (size_t i = 0; i < op.weights.size(); ++i) {
      text += matrix(op.weights[i]);
      if (!op.biases.empty() && !op.biases[i].empty()) text += " bias";
    }
    return text + activation(op.activation) + factor(op.scale);
  }
  std::string operator()(const LinearGluOp& op) const {
    return arrow(buffer(op.in), op.out) + norm(" norm", op.norm) + matrix(op.gate) + matrix(op.up) +
           activation(op.activation);
  }
  std::string operator()(const RopeStoreOp& op) const {
    return fmt::format("{} kv {}{}{}{} rope {}", buffer(op.qkv), op.kv_layer, heads(op),
                       norm(" q_norm", op.q_norm), norm(" k_norm", op.k_norm), op.rope);
  }
  std::string operator()(const AttentionOp& op) const {
    return fmt::format("{} kv {}{} scale {:.6g}", arrow(buffer(op.qkv), op.out), op.kv_layer,
                       heads(op), op.scale);
  }
  std::string operator()(const ShortConvOp& op) const {
    return fmt::format("{} conv {} taps {}", arrow(buffer(op.bcx), op.out), op.conv_layer, op.taps);
  }
  std::string operator()(const TakeRowsOp& op) const { return arrow(buffer(op.in), op.out); }

  std::string buffer(BufferId id) const { return fmt::format("{}:{}", plan_.buffers[id].name, id); }

 private:
  std::string arrow(const std::string& in, BufferId out, bool accumulate = false) const {
    return fmt::format("{}{}{} {}", in, in.empty() ? "" : " ", accumulate ? "+>" : "->",
                       buffer(out));
  }
  static std::string matrix(const Weight& w) {
    return fmt::format(" {} {} [{}, {}]", w.name, type_info(w.type).name, w.n_rows, w.n_cols);
  }
  static std::string norm(const char* label, const NormSpec& norm) {
    if (!norm) return {};
    return fmt::format("{} {} eps {:.6g}", label, norm.gain.size(), norm.eps);
  }
  static std::string activation(Activation a) { return a == Activation::silu ? " silu" : ""; }
  static std::string factor(float f) { return f == 1 ? "" : fmt::format(" * {:.6g}", f); }
  template <class HeadOp>
  static std::string heads(const HeadOp& op) {
    return fmt::format(" heads {}/{}x{}", op.n_heads, op.n_kv_heads, op.head_dim);
  }

  const Plan& plan_;
};

std::string rope_text(const RopeSpec& rope) {
  if (rope.pairs == RopePairs::none) return "none";
  return fmt::format("{} {} dims, frequencies {:.6g} to {:.6g}, magnitude {:.6g}",
                     rope.pairs == RopePairs::adjacent ? "adjacent" : "halves", rope.n_dims,
                     rope.frequencies.front(), rope.frequencies.back(), rope.magnitude);
}

}  // namespace

std::string dump(const Plan& plan) {
  const OpPrinter printer(plan);
  std::string text =
      fmt::format("vocab {} logits {}\n", plan.vocab_size, printer.buffer(plan.logits));
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    text += fmt::format("buffer {} [{}, {}]\n", printer.buffer(BufferId(i)),
                        plan.buffers[i].rows == RowSet::step ? "step" : "outputs",
                        plan.buffers[i].width);
  }
  for (size_t i = 0; i < plan.ropes.size(); ++i) {
    text += fmt::format("rope {}: {}\n", i, rope_text(plan.ropes[i]));
  }
  for (size_t i = 0; i < plan.state.kv_layers.size(); ++i) {
    const auto& kv = plan.state.kv_layers[i];
    text += fmt::format("kv {}: {}x{}\n", i, kv.n_kv_heads, kv.head_dim);
  }
  for (size_t i = 0; i < plan.state.conv_layers.size(); ++i) {
    const auto& conv = plan.state.conv_layers[i];
    text += fmt::format("conv {}: {} taps {}\n", i, conv.width, conv.taps);
  }
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const int32_t layer = plan.layer_of_op[i];
    text += fmt::format("{:>3} {} {}\n", layer < 0 ? "-" : std::to_string(layer),
                        op_name(plan.ops[i]), std::visit(printer, plan.ops[i]));
  }
  return text;
}

}  // namespace cera
