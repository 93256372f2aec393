// Qwen 2 and 2.5: llama with biases on q, k and v, and RoPE on halves of a head.

#include "models/blocks.h"

namespace cera {

void build_qwen2(ModelReader& m) {
  dense_decoder(m, {.rope = m.rope(RopePairs::halves), .bias = Presence::required});
}

}  // namespace cera
