#include "graph/tensor_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::graph {
namespace {

TEST(TensorType, CountsElementsAndBytes) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 4}), 12);
  EXPECT_EQ(element_count({3, 0, 4}), 0);
  EXPECT_EQ((TensorType{DType::bf16, {3, 4}}).bytes(), 24);
  EXPECT_EQ((TensorType{DType::f64, {}}).bytes(), 8);
  EXPECT_EQ((TensorType{DType::f64, {5}}).rank(), 1);
}

TEST(TensorType, RowMajorStrides) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(row_major_strides({}), Dims{});
  EXPECT_EQ(row_major_strides({5, 1}), (Dims{1, 1}));
}

TEST(TensorType, TextRoundTrips) {
  for (const std::string text : {"f32[]", "pred[1]", "bf16[8,128,768]", "u64[0,3]", "f8e5m2[2]"}) {
    const Result<TensorType> type = parse_tensor_type(text);
    ASSERT_TRUE(type.ok()) << type.error().message;
    EXPECT_EQ(to_string(*type), text);
  }
}

TEST(TensorType, BadTextIsRefusedWithTheText) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected DTYPE[DIMS]"},
      {"f32", "expected DTYPE[DIMS]"},
      {"f32[", "expected DTYPE[DIMS]"},
      {"f32[4", "expected DTYPE[DIMS]"},
      {"f31[4]", "unknown element type"},
      {"[4]", "unknown element type"},
      {"f32[4,]", "separated by commas"},
      {"f32[,4]", "non-negative integers"},
      {"f32[4 ]", "separated by commas"},
      {"f32[ 4]", "non-negative integers"},
      {"f32[-1]", "non-negative integers"},
      {"f32[4;5]", "separated by commas"},
      {"f32[99999999999999999999]", "non-negative integers"},
      {"f32[4]]", "separated by commas"},
      {"f32[4]x", "expected DTYPE[DIMS]"},
  };
  for (const auto& [text, message] : cases) {
    const Result<TensorType> type = parse_tensor_type(text);
    ASSERT_FALSE(type.ok()) << text;
    EXPECT_EQ(type.error().kind, ErrorKind::parse);
    EXPECT_THAT(type.error().message, ::testing::HasSubstr(message)) << text;
    EXPECT_THAT(type.error().message, ::testing::HasSubstr("'" + text + "'"));
  }
}

TEST(TensorType, ComparesByDTypeAndExtents) {
  EXPECT_EQ((TensorType{DType::f32, {2}}), (TensorType{DType::f32, {2}}));
  EXPECT_NE((TensorType{DType::f32, {2}}), (TensorType{DType::f32, {2, 1}}));
  EXPECT_NE((TensorType{DType::f32, {2}}), (TensorType{DType::f16, {2}}));
}

}  // namespace
}  // namespace stitch::graph
