#include "graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/literal.h"
#include "graph/print.h"
#include "graph/verify.h"

namespace stitch::graph {
namespace {

using ::testing::HasSubstr;

TEST(Builder, TheFirstErrorSticks) {
  Builder b;
  const Value x = b.parameter(DType::s32, {4});
  b.at("layer/exp", 3);
  const Value broken = b.unary(Op::exp, x);
  EXPECT_TRUE(b.failed());
  b.at("later", 9);
  b.unary(Op::log, x);
  b.binary(Op::add, broken, x);
  b.parameter(DType::f32, {-1});
  b.fail(make_error(ErrorKind::parse, "another"));
  const Result<Graph> graph = b.finish({broken});
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "exp 'layer/exp' (line 3): operand 0 is s32, which exp does not take");
}

TEST(Builder, EverythingIsCallableAfterAFailure) {
  Builder b;
  b.fail(make_error(ErrorKind::unsupported, "stop"));
  Value x = b.parameter(DType::f32, {2});
  x = b.convert(b.reshape(b.broadcast_to(b.broadcast_binary(Op::add, x, b.filled(DType::f32, {2}, 1)), {3, 2}), {6}),
                DType::f16);
  x = b.reduce(ReduceKind::sum, b.pad(b.concatenate({x, x}, 0), x, {0}, {0}), {0});
  EXPECT_EQ(b.type(x), TensorType{});
  EXPECT_EQ(b.graph().size(), 0);
  EXPECT_EQ(b.finish({x}).error().kind, ErrorKind::unsupported);
}

TEST(Builder, NoOpsReturnTheirOperand) {
  Builder b;
  const Value x = b.parameter(DType::f32, {2, 3});
  EXPECT_EQ(b.convert(x, DType::f32), x);
  EXPECT_EQ(b.reshape(x, {2, 3}), x);
  EXPECT_EQ(b.concatenate({x}, 0), x);
  EXPECT_EQ(b.broadcast_to(x, {2, 3}), x);
  EXPECT_EQ(b.graph().size(), 1);
}

TEST(Builder, ReduceSortsItsDimensions) {
  Builder b;
  const Value y = b.reduce(ReduceKind::sum, b.parameter(DType::f32, {2, 3, 4}), {2, 0});
  EXPECT_EQ(b.dims(y), Dims{3});
}

TEST(Builder, ScalarsAreRoundedToTheirDType) {
  Builder b;
  const Value x = b.scalar(DType::bf16, 0.1);
  EXPECT_EQ(element(b.graph().node(x.node).as<ConstantAttributes>(), 0), 0.10009765625);
  EXPECT_EQ(b.filled(DType::f32, {}, 1).node, 1);  // no broadcast of a scalar to a scalar
}

struct BroadcastCase {
  Dims a, b;
  std::string expected;
};

TEST(Builder, NumpyBroadcasting) {
  const BroadcastCase cases[] = {
      {{4, 8}, {8}, "[4,8]"},
      {{4, 1}, {1, 8}, "[4,8]"},
      {{}, {3}, "[3]"},
      {{}, {}, "[]"},
      {{1}, {0}, "[0]"},
      {{2, 1, 4}, {3, 1}, "[2,3,4]"},
      {{4}, {5}, "!shapes [4] and [5] do not broadcast"},
      {{2, 3}, {2, 1, 2}, "!do not broadcast"},
      {{0}, {2}, "!do not broadcast"},
  };
  for (const BroadcastCase& c : cases) {
    const Result<Dims> shape = broadcast_shape(c.a, c.b);
    Builder b;
    const Value sum = b.broadcast_binary(Op::add, b.parameter(DType::f32, c.a), b.parameter(DType::f32, c.b));
    if (c.expected.starts_with("!")) {
      ASSERT_FALSE(shape.ok());
      EXPECT_THAT(shape.error().message, HasSubstr(c.expected.substr(1)));
      EXPECT_TRUE(b.failed());
    } else {
      ASSERT_TRUE(shape.ok());
      EXPECT_EQ(to_string(*shape), c.expected);
      EXPECT_EQ(to_string(b.dims(sum)), c.expected);
      EXPECT_TRUE(verify(*b.finish({sum})).ok());
    }
  }
}

TEST(Builder, BroadcastToStretchesOnesThatAreNotOnes) {
  Builder b;
  b.at("mask");
  const Value x = b.parameter(DType::f32, {1, 1, 3});
  const Value y = b.broadcast_to(x, {2, 1, 5, 3});
  EXPECT_EQ(to_string(b.dims(y)), "[2,1,5,3]");
  EXPECT_EQ(to_text(b.graph(), y.node), "%2 = broadcast f32[2,1,5,3] %1 {dims=[2,1,5,3], mapping=[1,3]}");
  b.broadcast_to(x, {3});
  EXPECT_EQ(b.finish({}).error().message, "'mask': cannot broadcast [1,1,3] to [3]");
}

TEST(Builder, BroadcastToAnImpossibleShapeIsAnError) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4});
  b.broadcast_to(x, {5});
  EXPECT_THAT(b.finish({}).error().message, HasSubstr("of extent 4 becomes dimension 0 of extent 5"));
}

}  // namespace
}  // namespace stitch::graph
