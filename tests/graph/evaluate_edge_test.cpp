// What XLA and the reference disagreed on (bench/differential): results that no element of an operand reaches, and
// products that overflow in one order and not in another.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "graph/builder.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// A convolution of one image of one row and feature, whose only window lies in the padding altogether.
Result<Graph> convolution_of_padding(DType dtype) {
  Builder b;
  const Value x = b.parameter(dtype, {1, 1, 1}), kernel = b.parameter(dtype, {2, 1, 1});
  ConvolutionAttributes a;
  a.input_spatial = a.kernel_spatial = a.output_spatial = {2};
  a.strides = {3};
  a.low = a.high = {1};
  a.input_dilation = a.kernel_dilation = {1};
  a.result = dtype;
  return b.finish({b.add(Op::convolution, {x, kernel}, a)});
}

Tensor values_of(const TensorType& type, std::vector<double> values) {
  Tensor tensor = Tensor::zeros(type);
  tensor.floats = std::move(values);
  return tensor;
}

Tensor bounded(const Graph& graph, const std::vector<Tensor>& arguments) {
  EvaluateOptions options;
  options.bounds = true;
  auto results = evaluate(graph, arguments, options);
  EXPECT_TRUE(results.ok()) << results.error().message;
  return std::move((*results)[0]);
}

// 1e-200 · 1e-200 is zero, 1e-200 · 1e200 is not.
TEST(EvaluateEdges, AProductThatUnderflowsInOneOrderIsNotChecked) {
  Builder b;
  const TensorType type{DType::f64, {2, 3}};
  const Graph graph = *b.finish({b.reduce(ReduceKind::product, b.parameter(type.dtype, type.dims), {1})});
  const Tensor product = bounded(graph, {values_of(type, {1e-200, 1e-200, 1e200, 0, 2, 3})});
  EXPECT_TRUE(std::isinf(product.bound(0)));
  EXPECT_EQ(product.bound(1), 0);
  const Tensor nothing = bounded(graph, {values_of(type, {1e-200, 1e-200, 1e20, 1e-300, 1e-300, 1e-300})});
  for (std::int64_t i = 0; i < 2; ++i) EXPECT_LT(nothing.bound(i), 1e-280) << i;
  // In this order it is zero, in another 1e-320.
  const Tensor little = bounded(graph, {values_of(type, {1e-160, 1e-170, 1e10, 0, 1e-170, 1e10})});
  EXPECT_EQ(little.at(0), 0);
  EXPECT_GE(little.bound(0), 1e-320);
  EXPECT_EQ(little.bound(1), 0);
}

/// What a kernel may have kept wider than the eighth of itself that f8e5m2 tells apart.
Value roughly(Builder& b, Value x) { return b.convert(b.convert(x, DType::f8e5m2), DType::f32); }

// 1.2 ± 2.5: both ends have no arc cosine, and neither has the middle; some of what is between them does.
TEST(EvaluateEdges, ADomainWithinTheBoundIsNotChecked) {
  Builder b;
  const TensorType type{DType::f32, {2}};
  const Value x = roughly(b, b.parameter(type.dtype, type.dims));
  const Graph graph = *b.finish({b.unary(Op::acos, b.binary(Op::subtract, x, b.parameter(type.dtype, type.dims)))});
  const Tensor angle = bounded(graph, {values_of(type, {19.7F, 19.7F}), values_of(type, {18.5F, 1})});
  EXPECT_TRUE(std::isinf(angle.bound(0)));
  EXPECT_TRUE(std::isnan(angle.at(1)));
  EXPECT_EQ(angle.bound(1), 0);
}

TEST(EvaluateEdges, PowersOfWhatMayBeOneAreNotChecked) {
  Builder b;
  const TensorType type{DType::f32, {2}};
  const Value x = roughly(b, b.parameter(type.dtype, type.dims));
  const Graph graph = *b.finish({b.binary(Op::power, x, b.parameter(type.dtype, type.dims))});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor power = bounded(graph, {values_of(type, {1.01F, 3.01F}), values_of(type, {nan, nan})});
  EXPECT_TRUE(std::isinf(power.bound(0)));
  EXPECT_EQ(power.bound(1), 0);
}

// A sum of one negative zero is that zero or the other one.
TEST(EvaluateEdges, WhichInfinityAZeroGivesIsNotChecked) {
  Builder b;
  const TensorType type{DType::f32, {3}};
  const Value x = b.parameter(DType::f32, {3});
  const Graph roots = *b.finish({b.unary(Op::rsqrt, x)});
  const Tensor root = bounded(roots, {values_of(type, {0, -0.0, 4})});
  EXPECT_TRUE(std::isinf(root.bound(0)) && std::isinf(root.bound(1)));
  EXPECT_LT(root.bound(2), 1e-6);
  for (const Op op : {Op::divide, Op::power}) {
    Builder both;
    const Value one = both.parameter(DType::f32, {3}), other = both.parameter(DType::f32, {3});
    const Graph graph = *both.finish({both.binary(op, one, other)});
    const bool divides = op == Op::divide;
    const Tensor tensor = divides ? bounded(graph, {values_of(type, {1, 0, 1}), values_of(type, {-0.0, 0, 4})})
                                  : bounded(graph, {values_of(type, {0, 0, 2}), values_of(type, {-1, 1, 4})});
    EXPECT_TRUE(std::isinf(tensor.bound(0)));
    EXPECT_EQ(tensor.bound(1), 0);  // NaN of 0 / 0, and 0 to the power of 1, either way
    EXPECT_LT(tensor.bound(2), 1e-4);
  }
}

TEST(EvaluateEdges, TheSignOfAZeroThatChoosesAnAngleIsNotChecked) {
  Builder b;
  const TensorType type{DType::f32, {5}};
  const Value y = b.parameter(DType::f32, {5}), x = b.parameter(DType::f32, {5});
  const Graph graph = *b.finish({b.binary(Op::atan2, y, x)});
  const Tensor angle = bounded(graph, {values_of(type, {0, 0, 0, 1, 1}), values_of(type, {0, -1, 1, 0, -1})});
  EXPECT_GT(angle.bound(0), 3);
  EXPECT_GT(angle.bound(1), 6);
  for (std::int64_t i = 2; i < 5; ++i) EXPECT_LT(angle.bound(i), 1e-5) << i;
}

// 259 is 256 in f8e5m2, which a kernel need not make of it, and then 260 in bf16.
TEST(EvaluateEdges, WhatWasKeptWiderIsRoundedByAConversionThatWidens) {
  Builder b;
  const Graph graph = *b.finish({b.convert(b.iota(DType::f8e5m2, {512}, 0), DType::bf16)});
  const Tensor index = bounded(graph, {});
  EXPECT_EQ(index.at(259), 256);
  EXPECT_GE(index.bound(259), 4);
  EXPECT_EQ(index.bound(256), 0);
}

TEST(EvaluateEdges, AConvolutionOfNoFeaturesIsZero) {
  Builder b;
  const Value x = b.parameter(DType::f32, {1, 0, 3}), kernel = b.parameter(DType::f32, {2, 0, 2});
  ConvolutionAttributes a;
  a.input_spatial = a.kernel_spatial = a.output_spatial = {2};
  a.strides = a.input_dilation = a.kernel_dilation = {1};
  a.low = a.high = {0};
  const Result<Graph> graph = b.finish({b.add(Op::convolution, {x, kernel}, a)});
  ASSERT_TRUE(graph) << graph.error().message;
  const auto results =
      evaluate(*graph, std::vector{Tensor::zeros({DType::f32, {1, 0, 3}}), Tensor::zeros({DType::f32, {2, 0, 2}})});
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ((*results)[0].type, (TensorType{DType::f32, {1, 2, 2}}));
  EXPECT_EQ((*results)[0].floats, std::vector<double>(4, 0));
}

TEST(EvaluateEdges, AConvolutionWhoseWindowsSeeOnlyPaddingIsZero) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::s32}) {
    for (const bool bounds : {false, true}) {
      const Result<Graph> graph = convolution_of_padding(dtype);
      ASSERT_TRUE(graph) << graph.error().message;
      Tensor x = Tensor::zeros({dtype, {1, 1, 1}}), kernel = Tensor::zeros({dtype, {2, 1, 1}});
      x.floats.assign(x.floats.size(), 3);
      x.integers.assign(x.integers.size(), 3);
      kernel.floats.assign(kernel.floats.size(), 2);
      kernel.integers.assign(kernel.integers.size(), 2);
      EvaluateOptions options;
      options.bounds = bounds;
      const auto results = evaluate(*graph, std::vector{x, kernel}, options);
      ASSERT_TRUE(results) << results.error().message;
      const Tensor& y = (*results)[0];
      ASSERT_EQ(y.type, (TensorType{dtype, {1, 2, 1}}));
      for (std::int64_t i = 0; i < 2; ++i) {
        EXPECT_EQ(y.at(i), 0);
        EXPECT_EQ(y.bound(i), 0);
      }
    }
  }
}

struct Product {
  const char* name;
  DType dtype;
  std::vector<double> factors;
  double value;
  bool checked;
};
void PrintTo(const Product& product, std::ostream* out) { *out << product.name; }

class ProductsAtTheEnd : public testing::TestWithParam<Product> {};

TEST_P(ProductsAtTheEnd, AreCheckedWhereEveryOrderAgrees) {
  const std::int64_t count = GetParam().factors.size();
  Builder b;
  const Result<Graph> graph = b.finish({b.reduce(ReduceKind::product, b.parameter(GetParam().dtype, {count}), {0})});
  ASSERT_TRUE(graph) << graph.error().message;
  Tensor x = Tensor::zeros({GetParam().dtype, {count}});
  x.floats = GetParam().factors;
  EvaluateOptions options;
  options.bounds = true;
  const auto results = evaluate(*graph, std::vector{x}, options);
  ASSERT_TRUE(results) << results.error().message;
  const Tensor& product = (*results)[0];
  EXPECT_EQ(std::isfinite(product.bound(0)), GetParam().checked);
  if (!GetParam().checked) return;
  EXPECT_EQ(product.bound(0), 0);
  EXPECT_TRUE(std::isnan(GetParam().value) ? std::isnan(product.at(0)) : product.at(0) == GetParam().value);
}

INSTANTIATE_TEST_SUITE_P(
    Factors, ProductsAtTheEnd,
    testing::Values(Product{"f64_that_overflows", DType::f64, {1e200, 1e200, 1e-300}, 0, false},
                    Product{"f64_that_overflows_and_meets_zero", DType::f64, {1e200, 1e200, 0}, 0, false},
                    Product{"f32_beyond_f64", DType::f32, std::vector<double>(12, 1e30), 0, false},
                    Product{"an_infinite_factor", DType::f64, {2, -infinity, 0.5}, -infinity, true},
                    Product{"an_infinite_factor_and_zero", DType::f64, {2, infinity, 0}, nan, true},
                    Product{"a_factor_that_is_nan", DType::f64, {1e200, nan, 1e200}, nan, true}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace stitch::graph
