#include "graph/f32_products.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr Constraints one_product{.tf32 = true}, three_products{.tf32x3 = true}, three_of_bf16{.bf16x3 = true};

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
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, three_of_bf16)), three_of_bf16);
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, one_product | three_products)), one_product);
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, three_of_bf16 | one_product)), one_product);
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, three_of_bf16 | three_products)), three_of_bf16);
  for (const DType other : {DType::f16, DType::f64, DType::s32}) {
    for (const Constraints& asked : {one_product, three_of_bf16})
      EXPECT_EQ(relevant_constraints(product(other, 4, asked)), Constraints()) << to_string(other);
  }
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

/// A window of 3 by `width` that moves by `stride`.
Graph convolution(DType dtype, std::int64_t width, std::int64_t stride, Constraints constraints) {
  Builder b;
  const Value x = b.parameter(dtype, {1, 2, 8, 8}), kernel = b.parameter(dtype, {4, 2, 3, width});
  ConvolutionAttributes a;
  a.input_spatial = a.kernel_spatial = a.output_spatial = {2, 3};
  a.input_dilation = a.kernel_dilation = {1, 1};
  a.strides = {stride, stride};
  a.low = a.high = {0, 0};
  a.result = dtype;
  Graph graph = *b.finish({b.add(Op::convolution, {x, kernel}, a)});
  graph.constraints = constraints;
  return graph;
}

TEST(F32Products, WinogradIsForWindowsOfThreeByThreeAlone) {
  constexpr Constraints granted{.winograd = true};
  EXPECT_EQ(relevant_constraints(convolution(DType::f32, 3, 1, granted)), granted);
  EXPECT_EQ(relevant_constraints(convolution(DType::f32, 1, 1, granted)), Constraints());
  EXPECT_EQ(relevant_constraints(convolution(DType::f32, 3, 2, granted)), Constraints());
  EXPECT_EQ(relevant_constraints(convolution(DType::f16, 3, 1, granted)), Constraints());
  EXPECT_EQ(relevant_constraints(product(DType::f32, 4, granted)), Constraints());
  for (const Constraints& other : {one_product, three_products, three_of_bf16, Constraints{.batch_invariant = true},
                                   Constraints{.eager_precision = true}}) {
    EXPECT_TRUE(by_winograd(granted));
    EXPECT_FALSE(by_winograd(granted | other)) << to_string(other);
    EXPECT_EQ(relevant_constraints(convolution(DType::f32, 3, 1, granted | other)), other);
  }
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

float rounded_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U);
}
float rest_of_bf16(float x) { return rounded_to_bf16(x - rounded_to_bf16(x)); }

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

/// Three products of bf16 without one of them, by its number; none: 3.
double by_bf16(float x, float y, int without = 3) {
  const double big_x = rounded_to_bf16(x), big_y = rounded_to_bf16(y);
  const std::array<double, 3> products = {big_x * big_y, big_x * rest_of_bf16(y), rest_of_bf16(x) * big_y};
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += i == without ? 0 : products.at(i);
  return sum;
}

// The bound of bf16's two parts holds at every magnitude, is at most five times what is lost of some operands, and does
// not cover what is lost without any of the three products.
TEST(F32Products, BoundsOfThreeProductsOfBf16AreTight) {
  Random random(11);
  double most = 0;
  std::array<int, 3> outside{};
  constexpr int count = 2000;
  for (int i = 0; i < count; ++i) {
    const auto drawn = [&] {
      return static_cast<float>(std::ldexp((random.below(2) == 0 ? -1 : 1) * (1 + random.uniform()),
                                           static_cast<int>(random.below(100)) - 50));
    };
    const float x = drawn(), y = drawn();
    const double exact = static_cast<double>(x) * y;
    const double bound = bound_of(product(DType::f32, 1, three_of_bf16), {x}, {y});
    EXPECT_LE(std::fabs(by_bf16(x, y) - exact), bound) << x << " " << y;
    most = std::max(most, std::fabs(by_bf16(x, y) - exact) / bound);
    for (int without = 0; without < 3; ++without)
      if (std::fabs(by_bf16(x, y, without) - exact) > bound) ++outside.at(without);
  }
  EXPECT_GT(most, 0.2);
  for (const int times : outside) EXPECT_GT(times, 0.9 * count);
  // Operands that lose most: rests nearly as large as they may be, and of them half a step, to the same side.
  const float worst = 1 + 0x1.fcp-9F + 0x1p-17F;
  const double lost = std::fabs(by_bf16(worst, worst) - static_cast<double>(worst) * worst);
  const double bound = bound_of(product(DType::f32, 1, three_of_bf16), {worst}, {worst});
  EXPECT_LE(lost, bound);
  EXPECT_GT(lost, 0.9 * bound);
}

// bf16 has f32's exponents, but 16 fewer of a subnormal number's bits.
TEST(F32Products, BoundsOfThreeProductsOfBf16ReachFromTheSmallestToTheLargest) {
  for (const float x : {0x1p-149F, 0x1.8p-133F, 0x1.7p-134F, 0x1.234568p-126F, 0x1.fffffep-120F, 0x1.fdfffep127F}) {
    const float y = x < 1 ? 0x1.76543p126F : 0x1.76543p-126F;
    const double lost = std::fabs(by_bf16(x, y) - static_cast<double>(x) * y);
    const double bound = bound_of(product(DType::f32, 1, three_of_bf16), {x}, {y});
    EXPECT_LE(lost, bound) << x;
    EXPECT_TRUE(std::isfinite(bound)) << x;
  }
}

TEST(F32Products, WhatPartsMayOverflowIsNotChecked) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double near = 0x1.01p64, partner = 0x1.fbp63;  // their product is finite, that of what they round to may not be
  for (const Constraints& parts : {three_products, three_of_bf16}) {
    EXPECT_EQ(bound_of(product(DType::f32, 1, parts), {near}, {partner}), infinity);
    EXPECT_EQ(bound_of(product(DType::f32, 1, parts), {1e30}, {1e30}), infinity) << "infinities of either sign";
    EXPECT_LT(bound_of(product(DType::f32, 1, parts), {near}, {partner / 2}), infinity);
  }
  EXPECT_LT(bound_of(product(DType::f32, 1), {near}, {partner}), infinity);
  EXPECT_EQ(bound_of(product(DType::f32, 1), {1e30}, {1e30}), 0) << "infinite, surely";
}

TEST(F32Products, WhatRoundsToInfinityIsNotChecked) {
  const double largest = std::numeric_limits<float>::max(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isinf(bound_of(product(DType::f32, 1, one_product), {largest}, {1e-30})));
  EXPECT_EQ(bound_of(product(DType::f32, 1, one_product), {infinity}, {2}), 0);
  for (const Constraints& parts : {three_products, three_of_bf16}) {
    EXPECT_TRUE(std::isinf(bound_of(product(DType::f32, 1, parts), {infinity}, {2})));
    EXPECT_TRUE(std::isinf(bound_of(product(DType::f32, 1, parts), {largest}, {1e-30})));
  }
}

}  // namespace
}  // namespace stitch::graph
