#include "graph/f32_products.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr Constraints one_product{.tf32 = true}, three_products{.tf32x3 = true};

/// A row of `depth` times a column.
Graph product(DType dtype, std::int64_t depth, Constraints constraints = {}) {
  Builder b;
  const Value x = b.parameter(dtype, {depth}), y = b.parameter(dtype, {depth});
  Graph graph = *b.finish({b.dot(x, y, {{}, {}, {0}, {0}, dtype})});
  graph.constraints = constraints;
  return graph;
}

TEST(F32Products, ConstraintsMeanNothingWithoutOne) {
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, one_product)), one_product);
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, three_products)), three_products);
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, one_product | three_products)), one_product);
  for (const DType other : {DType::f16, DType::f64, DType::s32})
    EXPECT_EQ(relevant_constraints(product(other, 4, one_product)), Constraints()) << to_string(other);
  Constraints both = one_product;
  both.deterministic = true;
  EXPECT_EQ(relevant_constraints(product(DType::bf16, 4, both)), (Constraints{.deterministic = true}));
}

TEST(F32Products, ConvolutionsAreProductsToo) {
  Builder b;
  const Value x = b.parameter(DType::f32, {1, 2, 8}), kernel = b.parameter(DType::f32, {4, 2, 3});
  ConvolutionAttributes a;
  a.input_spatial = a.kernel_spatial = a.output_spatial = {2};
  a.strides = a.input_dilation = a.kernel_dilation = {1};
  a.low = a.high = {0};
  Graph graph = *b.finish({b.add(Op::convolution, {x, kernel}, a)});
  graph.constraints = one_product;
  EXPECT_EQ(relevant_constraints(graph), one_product);
}

double bound_of(const Graph& graph, const std::vector<double>& x, const std::vector<double>& y) {
  Tensor left = Tensor::zeros({DType::f32, {static_cast<std::int64_t>(x.size())}}), right = left;
  left.floats = x;
  right.floats = y;
  EvaluateOptions options;
  options.bounds = true;
  const auto results = evaluate(graph, std::vector{left, right}, options);
  EXPECT_TRUE(results.ok()) << results.error().message;
  return (*results)[0].bound(0);
}

float cut_off(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFFE000U); }
float rounded(float x) { return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000) & 0xFFFFE000U); }
float rest_of(float x) { return rounded(x - rounded(x)); }

// What hardware makes of one product, which may cut off, and kernels of three, which round, is within the bounds;
// within those of f32 it is not.
TEST(F32Products, BoundsCoverWhatRoundingLoses) {
  Random random(7);
  double most_one = 0, most_three = 0, outside_f32 = 0;
  for (int i = 0; i < 200; ++i) {
    const auto drawn = [&] {
      return static_cast<float>(std::ldexp(1 + random.uniform(), static_cast<int>(random.below(9))));
    };
    const float x = drawn(), y = drawn();
    const double exact = static_cast<double>(x) * y;
    const double one = static_cast<double>(cut_off(x)) * cut_off(y);
    const double big_x = rounded(x), big_y = rounded(y);
    const double three = big_x * big_y + big_x * rest_of(y) + rest_of(x) * big_y;
    const double bound_of_one = bound_of(product(DType::f32, 1, one_product), {x}, {y});
    const double bound_of_three = bound_of(product(DType::f32, 1, three_products), {x}, {y});
    EXPECT_LE(std::fabs(one - exact), bound_of_one);
    EXPECT_LE(std::fabs(three - exact), bound_of_three);
    most_one = std::max(most_one, std::fabs(one - exact) / bound_of_one);
    most_three = std::max(most_three, std::fabs(three - exact) / bound_of_three);
    if (std::fabs(one - exact) > bound_of(product(DType::f32, 1), {x}, {y})) ++outside_f32;
  }
  EXPECT_GT(most_one, 0.5) << "no looser than it need be";
  EXPECT_GT(most_three, 0.1);
  EXPECT_GT(outside_f32, 150);
}

TEST(F32Products, WhatRoundsToInfinityIsNotChecked) {
  const double largest = std::numeric_limits<float>::max(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isinf(bound_of(product(DType::f32, 1, one_product), {largest}, {1e-30})));
  EXPECT_EQ(bound_of(product(DType::f32, 1, one_product), {infinity}, {2}), 0);
  EXPECT_TRUE(std::isinf(bound_of(product(DType::f32, 1, three_products), {infinity}, {2})));
}

}  // namespace
}  // namespace stitch::graph
