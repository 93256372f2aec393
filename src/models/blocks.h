#pragma once
// The parts that architectures share. Each appends its ops to the plan of the reader, for the
// current block. Variants enter as numbers and optional tensors, never as an architecture's name.

#include "models/reader.h"

namespace cera {

enum class Presence : uint8_t { absent, optional, required };

struct AttentionSpec {
  uint32_t rope = 0;                      // from ModelReader::rope
  Presence bias = Presence::absent;       // attn_{q,k,v}.bias
  Presence head_norm = Presence::absent;  // attn_{q,k}_norm.weight, over each head
};

/// x [T, n_embd]
BufferId embedding(ModelReader& m);

/// x += Wo attention(rope(Wqkv norm(x)))
void attention_block(ModelReader& m, BufferId x, const AttentionSpec& spec);

/// x += Wout short_conv(Win norm(x)), as in LFM2; kernels of `taps` columns
void short_conv_block(ModelReader& m, BufferId x, uint32_t taps);

/// x += Wdown (silu(Wgate norm(x)) * (Wup norm(x)))
/// In the last block only the rows that reach the head are computed: returns what x is from here
/// on.
BufferId ffn_block(ModelReader& m, BufferId x);

/// logits = Whead norm(x); Whead is output.weight or, when the file has none, the embedding table.
void head(ModelReader& m, BufferId x, std::string_view norm_tensor);

/// A whole model of attention and FFN blocks.
void dense_decoder(ModelReader& m, const AttentionSpec& spec);

}  // namespace cera
