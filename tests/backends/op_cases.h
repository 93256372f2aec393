#pragma once
// One table of small plans, each around one op, with the sequences and steps to run them on. Every
// backend is compared on it with the scalar definitions (reference.h); the CPU with tolerance 0.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/harness.h"
#include "backends/random_weights.h"
#include "ops/plan.h"

namespace cera::tests {

struct OpCase {
  std::shared_ptr<RandomWeights> weights;  // the plan points into it
  Plan plan;
  KvType kv_type = KvType::f16;
  std::vector<TestSequence> sequences;
  Schedule schedule;
};

struct OpCaseEntry {
  std::string name;
  std::function<OpCase()> make;
};

/// What an attention case varies; the rest is derived.
struct AttentionCase {
  HeadShape heads = {3, 1, 64};
  KvType kv_type = KvType::f16;
  RopePairs pairs = RopePairs::halves;
  uint32_t rope_dims = 0;  // 0: all of the head
  float magnitude = 1;
  bool head_norm = false, full_norm = false;
  float deviation = 1;           // of q, k and v
  float scale = 0;               // 0: 1 / sqrt(head_dim)
  uint32_t wanted = UINT32_MAX;  // only the last so many cells
  uint32_t position_offset = 0;
  uint32_t image_begin = 0, image_end = 0;  // cells that see all of [0, image_end)
  Schedule schedule = chunked(70, 17);
};

inline OpCase make_attention_case(const AttentionCase& c) {
  OpCase made;
  made.weights = std::make_shared<RandomWeights>(c.heads.head_dim * 31 + c.heads.n_heads);
  RandomWeights& random = *made.weights;
  const auto [n_heads, n_kv_heads, head_dim] = c.heads;
  const uint32_t vocab = n_heads * head_dim;
  PlanBuilder builder(vocab);
  RopeStoreOptions options;
  if (c.pairs == RopePairs::none) {
    options.rope = builder.add_rope({});
  } else {
    RopeSpec rope = plain_rope(c.pairs, c.rope_dims ? c.rope_dims : head_dim);
    rope.magnitude = c.magnitude;
    options.rope = builder.add_rope(std::move(rope));
  }
  if (c.head_norm || c.full_norm) {
    const uint32_t q = c.full_norm ? n_heads * head_dim : head_dim;
    const uint32_t k = c.full_norm ? n_kv_heads * head_dim : head_dim;
    options.q_norm = {random.vector(q, 1, 0.2f), 1e-5f};
    options.k_norm = {random.vector(k, 1, 0.2f), 1e-6f};
  }
  const uint32_t kv = builder.add_kv_layer(c.heads);
  const BufferId qkv = builder.embed(random.matrix(
      "table", TensorType::f32, vocab, (n_heads + 2 * n_kv_heads) * head_dim, c.deviation));
  builder.rope_store(qkv, kv, c.heads, options);
  const float scale = c.scale != 0 ? c.scale : 1 / std::sqrt(float(head_dim));
  builder.set_logits(builder.take_rows(builder.attention(qkv, kv, c.heads, scale)));
  made.plan = must(builder.finish());
  made.kv_type = c.kv_type;
  for (uint32_t n_cells : cells_by_sequence(c.schedule)) {
    TestSequence sequence{random.tokens(n_cells, vocab), c.position_offset, {}, {}};
    for (uint32_t cell = 0; cell < n_cells; ++cell) {
      const bool image = c.image_begin <= cell && cell < c.image_end;
      sequence.last_visible.push_back(image ? c.image_end - 1 : cell);
      sequence.wanted.push_back(n_cells - cell <= c.wanted);
    }
    made.sequences.push_back(std::move(sequence));
  }
  made.schedule = c.schedule;
  return made;
}

inline std::string kv_name(KvType type) {
  return type == KvType::f16 ? "f16" : "f32";
}

inline void add_attention_shapes(std::vector<OpCaseEntry>& table) {
  for (uint32_t head_dim : {32, 48, 64, 80, 96, 128, 256, 20, 12}) {
    for (uint32_t group : {1, 2, 3, 7}) {
      for (KvType kv_type : {KvType::f16, KvType::f32}) {
        const uint32_t n_kv_heads = group * head_dim <= 256 ? 2 : 1;
        table.push_back(
            {fmt::format("attention_dim{}_group{}_{}", head_dim, group, kv_name(kv_type)), [=] {
               return make_attention_case(
                   {.heads = {n_kv_heads * group, n_kv_heads, head_dim}, .kv_type = kv_type});
             }});
      }
    }
  }
}

inline void add_attention_lengths(std::vector<OpCaseEntry>& table) {
  for (uint32_t length : {31, 32, 33, 63, 64, 65, 255, 256, 257, 511, 512, 513, 2049}) {
    for (KvType kv_type : {KvType::f16, KvType::f32}) {
      if (length > 1000 && kv_type == KvType::f32) continue;
      table.push_back(
          {fmt::format("attention_length{}_{}", length, kv_name(kv_type)), [=] {
             // A long prompt, then one row at a time.
             Schedule schedule = chunked(length - 2, 512);
             schedule.push_back({{0, 1}});
             schedule.push_back({{0, 1}});
             const HeadShape heads = {3, 1, length > 1000 ? 16u : 32u};
             return make_attention_case(
                 {.heads = heads, .kv_type = kv_type, .wanted = 3, .schedule = schedule});
           }});
    }
  }
  table.push_back({"attention_length4200", [] {
                     // More spans than a backend may want to work on at once.
                     Schedule schedule = chunked(4199, 512);
                     schedule.push_back({{0, 1}});
                     return make_attention_case(
                         {.heads = {1, 1, 8}, .wanted = 2, .schedule = schedule});
                   }});
  std::vector<uint32_t> row_counts = {33};
  for (uint32_t m = 1; m <= 17; ++m) row_counts.push_back(m);
  for (uint32_t m : row_counts) {
    table.push_back({fmt::format("attention_rows{}", m), [=] {
                       return make_attention_case(
                           {.heads = {4, 2, 32}, .wanted = m, .schedule = {{{0, 300}}, {{0, m}}}});
                     }});
  }
  table.push_back({"attention_rows512", [] {
                     return make_attention_case(
                         {.heads = {1, 1, 32}, .wanted = 40, .schedule = {{{0, 512}}}});
                   }});
}

inline void add_attention_features(std::vector<OpCaseEntry>& table) {
  const auto add = [&](const std::string& name, const AttentionCase& c) {
    table.push_back({"attention_" + name, [=] { return make_attention_case(c); }});
  };
  add("rope_adjacent", {.pairs = RopePairs::adjacent});
  add("rope_adjacent_odd", {.pairs = RopePairs::adjacent, .rope_dims = 22, .magnitude = 1.25f});
  add("rope_halves_partial", {.rope_dims = 22, .magnitude = 0.75f});
  add("rope_none", {.pairs = RopePairs::none});
  add("position_offset", {.position_offset = 100000});
  add("norm_per_head", {.heads = {4, 2, 48}, .head_norm = true});
  add("norm_full_width", {.heads = {4, 2, 48}, .full_norm = true});
  add("norm_odd_width", {.heads = {3, 1, 20}, .full_norm = true});
  add("image_span",
      {.wanted = 120, .image_begin = 200, .image_end = 280, .schedule = {{{0, 150}}, {{0, 140}}}});
  // Values beyond f16 saturate; scores far apart underflow in exp.
  add("saturated", {.deviation = 4e4f, .scale = 1e-9f});
  add("peaked", {.deviation = 3, .scale = 4});
  add("tiny_values", {.kv_type = KvType::f32, .deviation = 1e-22f});
  // Decode rows of four sequences beside the prompt of a fifth, twice.
  Schedule mixed = {{{0, 33}, {3, 260}}, {{1, 5}, {2, 64}, {4, 1}}};
  mixed.push_back({{3, 1}, {1, 1}, {0, 1}, {2, 100}, {4, 1}});
  mixed.push_back({{2, 1}, {3, 7}, {4, 70}, {0, 1}, {1, 1}});
  add("mixed_step", {.schedule = mixed});
}

struct ConvCase {
  uint32_t width, taps;
  Schedule schedule;
};

inline OpCase make_conv_case(const ConvCase& c) {
  OpCase made;
  made.weights = std::make_shared<RandomWeights>(c.width + c.taps);
  PlanBuilder builder(c.width);
  const uint32_t conv = builder.add_conv_layer(c.width, c.taps);
  const BufferId bcx =
      builder.embed(made.weights->matrix("table", TensorType::f32, c.width, 3 * c.width, 1));
  const BufferId y = builder.short_conv(bcx, conv, made.weights->vector(c.width * c.taps, 0, 1));
  builder.set_logits(builder.take_rows(y));
  made.plan = must(builder.finish());
  for (uint32_t n : cells_by_sequence(c.schedule)) {
    made.sequences.push_back({made.weights->tokens(n, c.width), 0, {}, {}});
  }
  made.schedule = c.schedule;
  return made;
}

inline void add_conv_cases(std::vector<OpCaseEntry>& table) {
  for (uint32_t taps : {2, 3, 4, 9, 64}) {
    for (uint32_t width : {8, 30, 200}) {
      // The longest chunk overruns the ring of columns.
      table.push_back(
          {fmt::format("short_conv_taps{}_width{}", taps, width), [=] {
             return make_conv_case(
                 {width, taps, {{{0, 1}}, {{0, 1}}, {{0, 5}}, {{0, 200}}, {{0, 1}}, {{0, 30}}}});
           }});
    }
  }
  table.push_back(
      {"short_conv_mixed_step", [] {
         return make_conv_case(
             {40, 3, {{{0, 3}, {1, 1}}, {{2, 90}, {0, 1}, {1, 1}}, {{1, 1}, {2, 1}, {0, 70}}}});
       }});
}

inline void add_embed_cases(std::vector<OpCaseEntry>& table) {
  for (const TypeInfo& info : all_types()) {
    for (float scale : {1.0f, 7.5f}) {
      table.push_back({fmt::format("embed_{}{}", info.name, scale == 1 ? "" : "_scaled"), [=] {
                         OpCase made;
                         made.weights = std::make_shared<RandomWeights>(5);
                         PlanBuilder builder(256);
                         builder.set_logits(builder.take_rows(builder.embed(
                             made.weights->matrix("table", info.type, 256, 256, 1), scale)));
                         made.plan = must(builder.finish());
                         made.sequences = {{made.weights->tokens(20, 256), 0, {}, {}}};
                         made.schedule = chunked(20, 19);
                         return made;
                       }});
    }
  }
}

/// The whole table. Names are unique and made of letters, digits and underscores.
inline const std::vector<OpCaseEntry>& op_cases() {
  static const std::vector<OpCaseEntry> table = [] {
    std::vector<OpCaseEntry> t;
    add_embed_cases(t);
    add_attention_shapes(t);
    add_attention_lengths(t);
    add_attention_features(t);
    add_conv_cases(t);
    return t;
  }();
  return table;
}

}  // namespace cera::tests
