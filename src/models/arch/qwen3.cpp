// Qwen 3 (dense): RMS norms on each head of q and k; the head size is a setting of its own.

#include "models/blocks.h"

namespace cera {

void build_qwen3(ModelReader& m) {
  dense_decoder(m, {.rope = m.rope(RopePairs::halves),
                    .bias = Presence::optional,
                    .head_norm = Presence::required});
}

}  // namespace cera
