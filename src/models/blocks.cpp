#include "models/blocks.h"

#include <cmath>

namespace cera {
namespace {

bool is_wanted(ModelReader& m, std::string_view tensor, Presence presence) {
  return presence == Presence::required || (presence == Presence::optional && m.has(tensor));
}

Vector bias(ModelReader& m, std::string_view tensor, uint32_t width, Presence presence) {
  return is_wanted(m, tensor, presence) ? m.vector(tensor, {width}) : Vector();
}

NormSpec head_norm(ModelReader& m, std::string_view tensor, Presence presence) {
  return is_wanted(m, tensor, presence) ? m.norm(tensor, m.config().head_dim) : NormSpec();
}

/// Says plainly what would otherwise show up as a list of missing tensors.
void check_attention(ModelReader& m, HeadShape heads) {
  if (heads.n_heads == 0 || heads.n_kv_heads == 0)
    m.mistake(
        ErrorCode::malformed,
        fmt::format("block {} has attention, but the metadata keys "
                    "'attention.head_count' and 'attention.head_count_kv' give it {} and {} heads",
                    m.layer(), heads.n_heads, heads.n_kv_heads));
  if (m.has("attn_qkv.weight"))
    m.mistake(
        ErrorCode::unsupported,
        fmt::format("tensor '{}': q, k and v in one matrix is not supported; convert the model "
                    "with separate ones",
                    m.full_name("attn_qkv.weight")));
}

}  // namespace

BufferId embedding(ModelReader& m) {
  return m.plan().embed(m.matrix("token_embd.weight", m.config().n_vocab, m.config().n_embd));
}

void attention_block(ModelReader& m, BufferId x, const AttentionSpec& spec) {
  const ModelConfig& c = m.config();
  PlanBuilder& p = m.plan();
  const HeadShape heads{c.n_heads[m.layer()], c.n_kv_heads[m.layer()], c.head_dim};
  const uint32_t q_width = heads.n_heads * heads.head_dim;
  const uint32_t kv_width = heads.n_kv_heads * heads.head_dim;
  check_attention(m, heads);

  const BufferId qkv = p.linear(
      x,
      {m.matrix("attn_q.weight", q_width, c.n_embd), m.matrix("attn_k.weight", kv_width, c.n_embd),
       m.matrix("attn_v.weight", kv_width, c.n_embd)},
      {.norm = m.norm("attn_norm.weight", c.n_embd),
       .biases = {bias(m, "attn_q.bias", q_width, spec.bias),
                  bias(m, "attn_k.bias", kv_width, spec.bias),
                  bias(m, "attn_v.bias", kv_width, spec.bias)}});
  const uint32_t kv = p.add_kv_layer(heads);
  p.rope_store(qkv, kv, heads,
               {.q_norm = head_norm(m, "attn_q_norm.weight", spec.head_norm),
                .k_norm = head_norm(m, "attn_k_norm.weight", spec.head_norm),
                .rope = spec.rope});
  const float scale = float(1 / std::sqrt(double(heads.head_dim)));
  p.linear_to(x, p.attention(qkv, kv, heads, scale),
              m.matrix("attn_output.weight", c.n_embd, q_width),
              {.biases = {m.optional_vector("attn_output.bias", c.n_embd)}});
}

void short_conv_block(ModelReader& m, BufferId x, uint32_t taps) {
  const uint32_t width = m.config().n_embd;
  PlanBuilder& p = m.plan();
  const BufferId bcx = p.linear(x, {m.matrix("shortconv.in_proj.weight", 3 * width, width)},
                                {.norm = m.norm("attn_norm.weight", width)});
  const uint32_t conv = p.add_conv_layer(width, taps);
  p.linear_to(x, p.short_conv(bcx, conv, m.vector("shortconv.conv.weight", {taps, width})),
              m.matrix("shortconv.out_proj.weight", width, width));
}

BufferId ffn_block(ModelReader& m, BufferId x) {
  const uint32_t width = m.config().n_embd, hidden = m.config().n_ff[m.layer()];
  PlanBuilder& p = m.plan();
  if (m.is_last_layer()) x = p.take_rows(x);
  const BufferId inner = p.linear_glu(x, m.matrix("ffn_gate.weight", hidden, width),
                                      m.matrix("ffn_up.weight", hidden, width),
                                      m.norm("ffn_norm.weight", width), Activation::silu);
  p.linear_to(x, inner, m.matrix("ffn_down.weight", width, hidden));
  return x;
}

void head(ModelReader& m, BufferId x, std::string_view norm_tensor) {
  const ModelConfig& c = m.config();
  m.end_layers();
  const std::string_view matrix = m.has("output.weight") ? "output.weight" : "token_embd.weight";
  m.plan().set_logits(m.plan().linear(x, {m.matrix(matrix, c.n_vocab, c.n_embd)},
                                      {.norm = m.norm(norm_tensor, c.n_embd),
                                       .biases = {m.optional_vector("output.bias", c.n_vocab)}}));
}

void dense_decoder(ModelReader& m, const AttentionSpec& spec) {
  BufferId x = embedding(m);
  for (uint32_t layer = 0; layer < m.config().n_layers; ++layer) {
    m.begin_layer(layer);
    attention_block(m, x, spec);
    x = ffn_block(m, x);
  }
  head(m, x, "output_norm.weight");
}

}  // namespace cera
