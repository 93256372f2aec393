// LFM2: most blocks mix tokens by a gated short convolution, the others by attention with norms on
// each head of q and k. A block has attention when it has key/value heads.

#include "models/blocks.h"

namespace cera {

void build_lfm2(ModelReader& m) {
  const AttentionSpec attention{.rope = m.rope(RopePairs::halves), .head_norm = Presence::required};
  const uint32_t taps = m.uint("shortconv.l_cache");
  // Converters wrote the final norm under the embedding's name first.
  const bool renamed = m.has("output_norm.weight");

  BufferId x = embedding(m);
  for (uint32_t layer = 0; layer < m.config().n_layers; ++layer) {
    m.begin_layer(layer);
    if (m.config().n_kv_heads[layer] != 0) {
      attention_block(m, x, attention);
    } else {
      short_conv_block(m, x, taps);
    }
    x = ffn_block(m, x);
  }
  head(m, x, renamed ? "output_norm.weight" : "token_embd_norm.weight");
}

}  // namespace cera
