// Llama 1 to 3, Mistral, SmolLM2 and their many relatives: RMS norms, grouped-query attention,
// SwiGLU. The converter reorders the rows of q and k so that adjacent elements rotate together.

#include "models/blocks.h"

namespace cera {

void build_llama(ModelReader& m) {
  dense_decoder(m, {.rope = m.rope(RopePairs::adjacent), .bias = Presence::optional});
}

}  // namespace cera
