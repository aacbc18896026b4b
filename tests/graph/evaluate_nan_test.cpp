#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/builder.h"
#include "graph/reference/evaluate.h"

// Where correct kernels may differ about NaN, and where not.
namespace stitch::graph {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor evaluated(Builder& builder, Value result, const std::vector<Tensor>& arguments) {
  const Result<Graph> graph = builder.finish({result});
  if (!graph) throw std::runtime_error(graph.error().message);
  EvaluateOptions options;
  options.bounds = true;
  auto results = evaluate(*graph, arguments, options);
  if (!results) throw std::runtime_error(results.error().message);
  return std::move((*results)[0]);
}

Tensor vector_of(DType dtype, std::vector<double> values) {
  Tensor tensor = Tensor::zeros({dtype, {static_cast<std::int64_t>(values.size())}});
  tensor.floats = std::move(values);
  return tensor;
}

TEST(EvaluateNan, ItsBitsAreNotTold) {
  Builder b;
  const Value bits = b.bitcast(b.parameter(DType::f16, {2}), DType::u16);
  const Tensor result = evaluated(b, bits, {vector_of(DType::f16, {nan, 1})});
  EXPECT_TRUE(std::isinf(result.bound(0)));
  EXPECT_EQ(result.bound(1), 0);
  EXPECT_EQ(result.at(1), 0x3C00);
}

TEST(EvaluateNan, AnExponentThatMayRoundToAnInteger) {
  Builder b;
  const Value root = b.unary(Op::cbrt, b.parameter(DType::f32, {3}));
  const Tensor result = evaluated(b, b.binary(Op::power, root, root), {vector_of(DType::f32, {-1e38, -27.5, 27.5})});
  EXPECT_TRUE(std::isinf(result.bound(0)));  // f32 has only integers there
  EXPECT_TRUE(std::isnan(result.at(1)));
  EXPECT_EQ(result.bound(1), 0);
  EXPECT_TRUE(std::isfinite(result.bound(2)));
}

TEST(EvaluateNan, ScatteredToOneOfTwoPlaces) {
  Builder b;
  const Value x = b.unary(Op::exp, b.parameter(DType::f32, {4}));
  const Value scattered = b.add(Op::select_and_scatter, {x, b.parameter(DType::f32, {2})},
                                SelectAndScatterAttributes{ReduceKind::max, {2}, {2}, {0}, {0}});
  const Tensor result =
      evaluated(b, scattered, {vector_of(DType::f32, {1, 1 + 1e-9, 1, 3}), vector_of(DType::f32, {nan, nan})});
  EXPECT_TRUE(std::isinf(result.bound(0)));  // either of the two may be the greater
  EXPECT_TRUE(std::isinf(result.bound(1)));
  EXPECT_EQ(result.at(2), 0);
  EXPECT_EQ(result.bound(2), 0);
  EXPECT_TRUE(std::isnan(result.at(3)));
  EXPECT_EQ(result.bound(3), 0);
}

}  // namespace
}  // namespace stitch::graph
