#include "quant/types.h"

#include <gtest/gtest.h>

#include <set>

namespace cera {
namespace {

TEST(Types, TableAgreesWithThePublishedShapes) {
  std::set<TensorType> seen;
  for (const TypeInfo& info : all_types()) {
    const auto id = uint32_t(info.type);
    EXPECT_TRUE(seen.insert(info.type).second) << info.name;
    EXPECT_EQ(find_type(id), &info);
    EXPECT_EQ(&type_info(info.type), &info);
    EXPECT_EQ(gguf_type_name(id), info.name);
    const auto shape = gguf_block_shape(id);
    ASSERT_TRUE(shape.has_value()) << info.name;
    EXPECT_EQ(shape->size, info.block_size) << info.name;
    EXPECT_EQ(shape->bytes, info.block_bytes) << info.name;
  }
  EXPECT_EQ(seen.size(), 11u);
}

TEST(Types, TypesWeCannotRunStillHaveNamesAndShapes) {
  EXPECT_EQ(find_type(17), nullptr);
  EXPECT_EQ(gguf_type_name(17), "IQ2_XS");
  EXPECT_EQ(gguf_block_shape(17)->bytes, 74u);
  EXPECT_EQ(gguf_block_shape(26)->bytes, 4u);
}

TEST(Types, UnknownIds) {
  for (const uint32_t id : {4u, 5u, 43u, 77u, 0xffffffffu}) {
    EXPECT_EQ(find_type(id), nullptr);
    EXPECT_FALSE(gguf_block_shape(id).has_value());
    EXPECT_EQ(gguf_type_name(id), "unknown");
  }
}

}  // namespace
}  // namespace cera
