#include "graph/fill.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/literal.h"

namespace stitch::graph {
namespace {

TEST(FillBits, AreThoseOfTheOneElement) {
  Builder b;
  const Value three = b.constant(splat({DType::s32, {}}, 3));
  const Value wide = b.reshape(b.broadcast(three, {2, 3}, {}), {6});
  const Value equal = b.constant(splat({DType::f32, {4}}, 1));
  const Value other = b.constant(dense({DType::f32, {2}}, std::vector<double>{1, 2}));
  const Value none = b.constant(splat({DType::f32, {0}}, 1));
  const Value given = b.parameter(DType::f32, {4});
  const Value computed = b.unary(Op::negate, equal);
  const auto graph = b.finish({wide, equal, other, none, given, computed});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(fill_bits(*graph, wide), 3U);
  EXPECT_EQ(fill_bits(*graph, equal), 0x3f800000U);
  for (const Value value : {other, none, given, computed}) EXPECT_EQ(fill_bits(*graph, value), std::nullopt);
}

}  // namespace
}  // namespace stitch::graph
