#pragma once
// A Plan: the flat list of ops that one step of a model runs, and the shapes of what they work on.
// It belongs to a model, never to a session; nothing in it changes between steps.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/op.h"

namespace cera {

/// Cells per page of the key/value cache.
inline constexpr uint32_t kPageCells = 64;
/// Softmax runs over spans of this many cells, counted from cell 0 (ops/attention.h).
inline constexpr uint32_t kSpanCells = 256;
/// Convolution columns kept beyond those the next cell needs: a sequence can be truncated by up to
/// this many cells without recomputing.
inline constexpr uint32_t kConvHistory = 64;

/// What one sequence remembers. Keys and values live in pages shared by all layers' pools under one
/// number.
struct StateSpec {
  struct KvLayer {
    uint32_t n_kv_heads, head_dim;
  };
  struct ConvLayer {
    uint32_t width, taps;
  };
  std::vector<KvLayer> kv_layers;
  std::vector<ConvLayer> conv_layers;
};

enum class RowSet : uint8_t { step, outputs };

struct Plan {
  struct Buffer {
    uint32_t width;
    RowSet rows;
    std::string name;  // for dumps and messages: "x", "qkv", "logits"
  };
  std::vector<Op> ops;
  std::vector<int32_t> layer_of_op;  // -1 before and after the layers
  std::vector<Buffer> buffers;
  std::vector<RopeSpec> ropes;
  StateSpec state;
  BufferId logits = kNoBuffer;  // [outputs, vocab]
  uint32_t vocab_size = 0;
};

/// Text form of a plan without addresses, one op a line: what snapshot tests compare.
std::string dump(const Plan& plan);

struct LinearOptions {
  NormSpec norm = {};
  std::vector<Vector> biases = {};
  Activation activation = Activation::none;
  float scale = 1;
};
struct HeadShape {
  uint32_t n_heads, n_kv_heads, head_dim;
};
struct RopeStoreOptions {
  NormSpec q_norm = {}, k_norm = {};
  uint32_t rope = 0;  // from add_rope
};

/// Appends ops. Shape mistakes are errors of the model file (they name tensor and numbers), kept
/// and returned by finish(): builders need not check every call.
class PlanBuilder {
 public:
  explicit PlanBuilder(uint32_t vocab_size);

  /// Marks the start of layer `index`; after the last one call layer(-1).
  void layer(int32_t index);
  uint32_t add_rope(RopeSpec rope);
  uint32_t add_kv_layer(HeadShape heads);
  uint32_t add_conv_layer(uint32_t width, uint32_t taps);

  BufferId embed(const Weight& table, float scale = 1);
  BufferId linear(BufferId in, std::vector<Weight> weights, LinearOptions options = {});
  /// out += linear(in)
  void linear_to(BufferId out, BufferId in, const Weight& weight, LinearOptions options = {});
  BufferId linear_glu(BufferId in, const Weight& gate, const Weight& up, NormSpec norm,
                      Activation act);
  void rope_store(BufferId qkv, uint32_t kv_layer, HeadShape heads, RopeStoreOptions options);
  BufferId attention(BufferId qkv, uint32_t kv_layer, HeadShape heads, float scale);
  BufferId short_conv(BufferId bcx, uint32_t conv_layer, Vector kernel);
  BufferId take_rows(BufferId in);
  void set_logits(BufferId logits);

  /// The plan, with buffers of equal shape and disjoint lifetime merged; or the first mistake.
  Result<Plan> finish();

 private:
  BufferId add_buffer(uint32_t width, RowSet rows, std::string name);
  void add(Op op);
  void mistake(std::string message);
  void check_input(BufferId in, const NormSpec& norm, const Weight& weight);
  uint32_t check_linear(BufferId in, const std::vector<Weight>& weights,
                        const LinearOptions& options);
  void check_heads(BufferId qkv, uint32_t kv_layer, HeadShape heads, const char* op);

  Plan plan_;
  int32_t layer_ = -1;
  std::vector<Error> mistakes_;
};

}  // namespace cera
