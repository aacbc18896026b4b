// What stands behind the contraction of a library's call. How the two kinds of calls use it: strided_matmul_test and
// strided_convolution_test.
#include "graph/calls/call_epilogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"

namespace stitch::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Digit = StridedView::Digit;

/// A product of [4, 8] and [8, 6], and what `behind` makes of it.
Graph product_with(const std::function<Value(Builder&, Value)>& behind, DType dtype = DType::f32) {
  Builder builder;
  const Value x = builder.parameter(dtype, {4, 8}), w = builder.parameter(dtype, {8, 6});
  return *builder.finish({behind(builder, builder.dot(x, w, {{}, {}, {1}, {0}, dtype}))});
}
Value filled(Builder& builder, double value) {
  return builder.broadcast(builder.scalar(DType::f32, value), {4, 6}, {});
}
Result<CallEpilogue> read(const Graph& call) {
  const auto root = root_of_call(call);
  if (!root) return root.error();
  return read_epilogue(call, *root, StridedView::of(call, {*root, 0}));
}
std::string refusal(const Graph& call) {
  const auto epilogue = read(call);
  EXPECT_FALSE(epilogue.ok());
  return epilogue.ok() ? "" : epilogue.error().message;
}

TEST(CallEpilogue, NothingIsNothing) {
  const auto epilogue = read(product_with([](Builder&, Value y) { return y; }));
  ASSERT_TRUE(epilogue.ok());
  EXPECT_EQ(epilogue->scale, 1);
  EXPECT_FALSE(epilogue->relu || epilogue->addend || epilogue->bias);
  EXPECT_EQ(epilogue->result.parameter, -1);
}

TEST(CallEpilogue, ScaleBiasAdditionAndReluAreRead) {
  const auto epilogue = read(product_with([](Builder& builder, Value y) {
    const Value scaled = builder.binary(Op::multiply, filled(builder, 0.25), y);
    const Value bias = builder.broadcast(builder.parameter(DType::f32, {6}), {4, 6}, {1});
    const Value biased = builder.binary(Op::add, scaled, bias);
    const Value sum = builder.binary(Op::add, builder.parameter(DType::f32, {4, 6}), biased);
    return builder.convert(builder.binary(Op::maximum, sum, filled(builder, 0)), DType::f16);
  }));
  ASSERT_TRUE(epilogue.ok()) << epilogue.error().message;
  EXPECT_EQ(epilogue->scale, 0.25);
  EXPECT_TRUE(epilogue->relu);
  ASSERT_TRUE(epilogue->bias && epilogue->addend);
  EXPECT_EQ(epilogue->bias->parameter, 2);
  EXPECT_THAT(epilogue->bias->walk, ElementsAre(Digit{4, 0}, Digit{6, 1}));
  EXPECT_EQ(epilogue->addend->parameter, 3);
  EXPECT_EQ(epilogue->result.dtype, DType::f16);
}

TEST(CallEpilogue, ATransposedResultIsWalkedAsTheProductIs) {
  const auto epilogue = read(product_with([](Builder& builder, Value y) { return builder.transpose(y, {1, 0}); }));
  ASSERT_TRUE(epilogue.ok());
  EXPECT_THAT(epilogue->result.walk, ElementsAre(Digit{4, 1}, Digit{6, 4}));
}

TEST(CallEpilogue, WhatNoEpilogueHasIsNamed) {
  EXPECT_THAT(refusal(product_with([](Builder& builder, Value y) { return builder.unary(Op::exp, y); })),
              HasSubstr("exp in an epilogue"));
  EXPECT_THAT(refusal(product_with([](Builder& builder, Value y) { return builder.binary(Op::multiply, y, y); })),
              HasSubstr("multiply in an epilogue"));
  EXPECT_THAT(refusal(product_with([](Builder& builder, Value y) {
                const Value one = builder.binary(Op::add, y, builder.parameter(DType::f32, {4, 6}));
                return builder.binary(Op::add, one, builder.parameter(DType::f32, {4, 6}));
              })),
              HasSubstr("two tensors are added"));
  EXPECT_THAT(refusal(product_with([](Builder&, Value y) { return y; }, DType::s32)), HasSubstr("a product of s32"));
}

TEST(CallEpilogue, TypesAreThoseThatLibrariesHaveTogether) {
  CallEpilogue epilogue;
  const auto allowed = [&](DType left, DType right, DType sums, DType result) {
    epilogue.result.dtype = result;
    return check_call_types(left, right, sums, epilogue, "a product").ok();
  };
  EXPECT_TRUE(allowed(DType::f32, DType::f32, DType::f32, DType::f32));
  EXPECT_TRUE(allowed(DType::f64, DType::f64, DType::f64, DType::f64));
  EXPECT_TRUE(allowed(DType::f16, DType::f16, DType::f32, DType::f32));
  EXPECT_TRUE(allowed(DType::bf16, DType::bf16, DType::f32, DType::bf16));
  EXPECT_FALSE(allowed(DType::f16, DType::bf16, DType::f32, DType::f32));
  EXPECT_FALSE(allowed(DType::f32, DType::f32, DType::f32, DType::f16));
  EXPECT_FALSE(allowed(DType::f32, DType::f32, DType::f64, DType::f32));
  epilogue.addend = CallEpilogue::Tensor{0, DType::f32, 0, {}};
  EXPECT_FALSE(allowed(DType::f16, DType::f16, DType::f32, DType::f16));
}

}  // namespace
}  // namespace stitch::graph
