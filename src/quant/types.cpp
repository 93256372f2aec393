#include "quant/types.h"

#include <array>

#include "base/assert.h"
#include "quant/families.h"

namespace cera {
namespace {

struct Published {
  uint32_t id;
  std::string_view name;
  BlockShape shape;
};

// Every type that GGUF files may hold or have held, in rising order of id.
constexpr Published published[] = {
    {0, "F32", {1, 4}},           {1, "F16", {1, 2}},           {2, "Q4_0", {32, 18}},
    {3, "Q4_1", {32, 20}},        {6, "Q5_0", {32, 22}},        {7, "Q5_1", {32, 24}},
    {8, "Q8_0", {32, 34}},        {9, "Q8_1", {32, 36}},        {10, "Q2_K", {256, 84}},
    {11, "Q3_K", {256, 110}},     {12, "Q4_K", {256, 144}},     {13, "Q5_K", {256, 176}},
    {14, "Q6_K", {256, 210}},     {15, "Q8_K", {256, 292}},     {16, "IQ2_XXS", {256, 66}},
    {17, "IQ2_XS", {256, 74}},    {18, "IQ3_XXS", {256, 98}},   {19, "IQ1_S", {256, 50}},
    {20, "IQ4_NL", {32, 18}},     {21, "IQ3_S", {256, 110}},    {22, "IQ2_S", {256, 82}},
    {23, "IQ4_XS", {256, 136}},   {24, "I8", {1, 1}},           {25, "I16", {1, 2}},
    {26, "I32", {1, 4}},          {27, "I64", {1, 8}},          {28, "F64", {1, 8}},
    {29, "IQ1_M", {256, 56}},     {30, "BF16", {1, 2}},         {31, "Q4_0_4_4", {32, 18}},
    {32, "Q4_0_4_8", {32, 18}},   {33, "Q4_0_8_8", {32, 18}},   {34, "TQ1_0", {256, 54}},
    {35, "TQ2_0", {256, 66}},     {36, "IQ4_NL_4_4", {32, 18}}, {37, "IQ4_NL_4_8", {32, 18}},
    {38, "IQ4_NL_8_8", {32, 18}}, {39, "MXFP4", {32, 17}},      {40, "NVFP4", {64, 36}},
    {41, "Q1_0", {128, 18}},      {42, "Q2_0", {64, 18}},
};

const Published* find_published(uint32_t id) {
  for (const Published& type : published)
    if (type.id == id) return &type;
  return nullptr;
}

const std::array<TypeInfo, 11>& table() {
  static const std::array<TypeInfo, 11> all = [] {
    std::array<TypeInfo, 11> rows{};
    size_t n = 0;
    for (const auto family : {quant::float_types(), quant::legacy_types(), quant::k_quant_types()})
      for (const TypeInfo& row : family) rows[n++] = row;
    CERA_ASSERT(n == rows.size());
    return rows;
  }();
  return all;
}

}  // namespace

std::span<const TypeInfo> all_types() {
  return table();
}

const TypeInfo* find_type(uint32_t gguf_id) {
  for (const TypeInfo& info : table())
    if (uint32_t(info.type) == gguf_id) return &info;
  return nullptr;
}

const TypeInfo& type_info(TensorType type) {
  const TypeInfo* info = find_type(uint32_t(type));
  CERA_ASSERT(info != nullptr);
  return *info;
}

std::string_view gguf_type_name(uint32_t gguf_id) {
  const Published* type = find_published(gguf_id);
  return type ? type->name : "unknown";
}

std::optional<BlockShape> gguf_block_shape(uint32_t gguf_id) {
  const Published* type = find_published(gguf_id);
  if (!type) return std::nullopt;
  return type->shape;
}

}  // namespace cera
