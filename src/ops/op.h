#pragma once
// The ops a Plan is made of: plain structs that name their input and output buffers. What each
// computes, to the last rounding, is its scalar definition in ops/<op>.h.
//
// Notation: T rows of the step, D width. Buffers are f32, row-major [rows, width].

#include <cstdint>
#include <variant>
#include <vector>

#include "ops/weight.h"

namespace cera {

/// Index of an activation buffer of the Plan.
using BufferId = uint32_t;
inline constexpr BufferId kNoBuffer = UINT32_MAX;

enum class Activation : uint8_t { none, silu };

/// RMS normalisation with gain: y = x / sqrt(mean(x^2) + eps) * gain. Absent when gain is empty.
struct NormSpec {
  Vector gain;
  float eps = 0;
  explicit operator bool() const { return !gain.empty(); }
};

/// out[T, D] = table[token] * scale, for each row of the step.
struct EmbedOp {
  Weight table;  // [vocab, D]
  BufferId out = kNoBuffer;
  float scale = 1;
};

/// y = act([norm](in) W^T + bias) * scale for 1 to 3 matrices, their outputs side by side:
/// out[rows, sum N_i] = y, or out += y (the residual).
struct LinearOp {
  BufferId in = kNoBuffer;
  BufferId out = kNoBuffer;
  NormSpec norm;
  std::vector<Weight> weights;  // each [N_i, D]
  std::vector<Vector> biases;   // empty, or one per weight (each may be empty)
  Activation activation = Activation::none;
  float scale = 1;
  bool accumulate = false;
};

/// out[rows, N] = act(norm(in) Wgate^T) * (norm(in) Wup^T)
struct LinearGluOp {
  BufferId in = kNoBuffer;
  BufferId out = kNoBuffer;
  NormSpec norm;
  Weight gate;  // [N, D]
  Weight up;    // [N, D]
  Activation activation = Activation::silu;
};

/// Which elements of a head rotate together. adjacent: (2i, 2i+1), GGUF's "norm" (llama);
/// halves: (i, i + n_dims/2), GGUF's "neox" (qwen, lfm2).
enum class RopePairs : uint8_t { none, adjacent, halves };

/// Pair i of a head turns by position * frequencies[i] and is multiplied by magnitude. Every
/// published scaling (linear, llama3 factors, YaRN) is a choice of these numbers, made by
/// models/rope.cpp.
struct RopeSpec {
  RopePairs pairs = RopePairs::none;
  uint32_t n_dims = 0;              // the first n_dims of a head rotate; even; 0 with none
  std::vector<double> frequencies;  // [n_dims / 2], radians per position
  float magnitude = 1;
};

/// In qkv [T, (n_heads + 2 n_kv_heads) * head_dim]: normalises (optional) and rotates q in place,
/// normalises and rotates k, then writes k and v to the cells of the cache. Attention reads k and v
/// from the cache only.
struct RopeStoreOp {
  BufferId qkv = kNoBuffer;
  uint32_t kv_layer = 0;  // index into StateSpec::kv_layers
  uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
  NormSpec q_norm, k_norm;  // gain [head_dim], applied per head; or the full width of q / k (olmo2)
  uint32_t rope = 0;        // index into Plan::ropes
};

/// out[T, n_heads * head_dim]: for each row and head, softmax(q . K * scale) V over the row's
/// visible cells of its own sequence, read as stored. q is the first n_heads * head_dim columns of
/// qkv.
struct AttentionOp {
  BufferId qkv = kNoBuffer;
  BufferId out = kNoBuffer;
  uint32_t kv_layer = 0;
  uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
  float scale = 1;
};

/// LFM2's gated short convolution. bcx [T, 3D] = [B | C | X]; u = B * X;
/// out[t, c] = C[t, c] * sum_j kernel[c][j] * u[t - (taps - 1) + j, c], earlier columns from the
/// state.
struct ShortConvOp {
  BufferId bcx = kNoBuffer;
  BufferId out = kNoBuffer;  // [T, D]
  uint32_t conv_layer = 0;   // index into StateSpec::conv_layers
  uint32_t taps = 0;
  Vector kernel;  // [D][taps], the oldest column first
};

/// out = the rows of `in` whose Row::wants_output is set, in order. `out` and everything after it
/// has Plan::Buffer::rows == RowSet::outputs.
struct TakeRowsOp {
  BufferId in = kNoBuffer;
  BufferId out = kNoBuffer;
};

using Op =
    std::variant<EmbedOp, LinearOp, LinearGluOp, RopeStoreOp, AttentionOp, ShortConvOp, TakeRowsOp>;

/// "linear", "attention" ...
const char* op_name(const Op& op);

}  // namespace cera
