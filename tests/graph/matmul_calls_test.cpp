#include "graph/calls/matmul_calls.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace stitch::graph {
namespace {

Value multiplied(Builder& builder, Value x, Value w, DType dtype = DType::f32) {
  return builder.dot(x, w, {{}, {}, {1}, {0}, dtype});
}

TEST(MatmulCalls, AttentionsAndLongEpiloguesAreMatmulsByThemselves) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {4, 8}), w = builder.parameter(DType::f32, {8, 8});
  EXPECT_TRUE(are_matmuls(*builder.finish({builder.unary(Op::tanh, multiplied(builder, x, w))})));
  Builder two;
  const Value a = two.parameter(DType::f32, {4, 8}), b = two.parameter(DType::f32, {8, 8});
  const Value again = multiplied(two, two.unary(Op::exp, multiplied(two, a, b)), b);
  EXPECT_TRUE(are_matmuls(*two.finish({again})));
}

TEST(MatmulCalls, IntegersAndUnlikeTypesAreNone) {
  Builder whole;
  const Value i = whole.parameter(DType::s32, {4, 4});
  EXPECT_FALSE(are_matmuls(*whole.finish({multiplied(whole, i, i, DType::s32)})));
  Builder narrow;
  const Value x = narrow.parameter(DType::f16, {4, 8}), w = narrow.parameter(DType::f16, {8, 6});
  const Value addend = narrow.parameter(DType::f32, {4, 6});
  const Value sum = narrow.binary(Op::add, multiplied(narrow, x, w, DType::f32), addend);
  EXPECT_FALSE(are_matmuls(*narrow.finish({narrow.convert(sum, DType::f16)})));
}

}  // namespace
}  // namespace stitch::graph
