// Functions that the evaluator computes itself, where no C function gives the value to compare with.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/builder.h"
#include "graph/reference/evaluate.h"
#include "graph/subgraph.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// op applied to one element of this type.
double applied(Op op, DType dtype, std::vector<double> elements) {
  Builder b;
  std::vector<Value> operands;
  std::vector<Tensor> arguments;
  for (const double element : elements) {
    operands.push_back(b.parameter(dtype, {}));
    arguments.push_back(Tensor::zeros({dtype, {}}));
    arguments.back().floats[0] = element;
  }
  const Value result = b.add(op, operands);
  return evaluate(*b.finish({result}), arguments)->front().floats[0];
}

TEST(ErfInv, IsTheInverseOfErf) {
  const auto inverse = [](double x) { return applied(Op::erf_inv, DType::f64, {x}); };
  for (int i = -999; i < 1000; ++i) {
    const double x = i / 1000.0, y = inverse(x);
    // An ulp of y moves erf by its slope times that.
    const double slope = 2 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    EXPECT_NEAR(std::erf(y), x, 2.3e-16 * (slope * std::fabs(y) * 2 + std::fabs(x))) << x;
  }
  for (int k = 1; k < 53; ++k) {  // close to 1, where only the complement tells
    const double left = std::ldexp(1, -k), y = inverse(1 - left);
    EXPECT_NEAR(std::erfc(y) / left, 1, 1e-15 * (1 + 2 * y * y)) << k;
    EXPECT_EQ(inverse(left - 1), -y) << k;
  }
  const double slope = std::sqrt(std::acos(-1.0)) / 2;
  for (int k = 20; k < 1020; k += 10) EXPECT_NEAR(inverse(std::ldexp(1, -k)) * std::ldexp(1, k), slope, 3e-13) << k;
}

TEST(ErfInv, AtItsEnds) {
  const auto inverse = [](double x) { return applied(Op::erf_inv, DType::f64, {x}); };
  EXPECT_EQ(inverse(1), infinity);
  EXPECT_EQ(inverse(-1), -infinity);
  EXPECT_TRUE(std::isnan(inverse(1.0000000000000002)));
  EXPECT_TRUE(std::isnan(inverse(-infinity)));
  EXPECT_TRUE(std::isnan(inverse(std::nan(""))));
  EXPECT_TRUE(std::signbit(inverse(-0.0)));
  EXPECT_EQ(inverse(std::numeric_limits<double>::denorm_min()), std::numeric_limits<double>::denorm_min());
}

struct Neighbour {
  DType dtype;
  double x, y, expected;
};
class NextAfter : public ::testing::TestWithParam<Neighbour> {};

TEST_P(NextAfter, IsANumberOfTheType) {
  const auto& [dtype, x, y, expected] = GetParam();
  EXPECT_EQ(applied(Op::nextafter, dtype, {x, y}), expected);
  EXPECT_EQ(applied(Op::nextafter, dtype, {-x, -y}), -expected);
}

INSTANTIATE_TEST_SUITE_P(
    Types, NextAfter,
    ::testing::Values(Neighbour{DType::f64, 1, 2, 1 + 0x1p-52}, Neighbour{DType::f32, 1, 2, 1 + 0x1p-23},
                      Neighbour{DType::f16, 1, 2, 1 + 0x1p-10}, Neighbour{DType::bf16, 1, 2, 1 + 0x1p-7},
                      Neighbour{DType::f8e4m3, 1, 2, 1.125}, Neighbour{DType::f8e5m2, 1, 2, 1.25},
                      Neighbour{DType::f32, 1, -2, 1 - 0x1p-24}, Neighbour{DType::bf16, 1, 0, 1 - 0x1p-8},
                      Neighbour{DType::f32, 0, 5, 0x1p-149}, Neighbour{DType::f16, 0, 5, 0x1p-24},
                      Neighbour{DType::bf16, 0, 1e-3, 0x1p-133}, Neighbour{DType::f8e4m3, 0, 1, 0x1p-9},
                      Neighbour{DType::f32, 0x1p-149, -1, 0}, Neighbour{DType::f16, 0x1p-14, 0, 0x1p-14 - 0x1p-24},
                      Neighbour{DType::f32, 3, 3, 3}, Neighbour{DType::f16, 65504, infinity, infinity},
                      Neighbour{DType::f16, infinity, 0, 65504}, Neighbour{DType::f8e4m3, 448, 0, 416},
                      Neighbour{DType::f8e5m2, 57344, infinity, infinity}));

TEST(NextAfterOfNan, IsNan) {
  EXPECT_TRUE(std::isnan(applied(Op::nextafter, DType::f16, {std::nan(""), 1})));
  EXPECT_TRUE(std::isnan(applied(Op::nextafter, DType::f32, {1, std::nan("")})));
  EXPECT_TRUE(std::isnan(applied(Op::nextafter, DType::f8e4m3, {infinity, 1})));  // which the type does not have
}

/// Random123's known answers (kat_vectors, philox4x32 with 10 rounds): key, counter, block.
TEST(Philox, HasItsKnownAnswers) {
  using Words = std::array<std::int64_t, 4>;
  struct Known {
    std::array<std::int64_t, 2> key;
    Words counter, block;
  };
  constexpr std::int64_t ones = 0xffffffff;
  for (const Known& known :
       {Known{{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        Known{{ones, ones}, {ones, ones, ones, ones}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        Known{{0xa4093822, 0x299f31d0},
              {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}) {
    Builder b;
    std::vector<Value> operands;
    std::vector<Tensor> arguments;
    const auto give = [&](std::int64_t word) {
      operands.push_back(b.parameter(DType::u32, {}));
      arguments.push_back(Tensor::zeros({DType::u32, {}}));
      arguments.back().integers[0] = word;
    };
    for (const std::int64_t word : known.key) give(word);
    for (const std::int64_t word : known.counter) give(word);
    const Value block = b.add(Op::philox4x32, operands);
    const Graph graph = *b.finish({block, {block.node, 1}, {block.node, 2}, {block.node, 3}});
    const auto results = evaluate(graph, arguments);
    ASSERT_TRUE(results.ok()) << results.error().message;
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ((*results)[i].integers[0], known.block[i]) << i;
    const auto last = evaluate(*part_of(graph, graph.results()[3]), arguments);  // with which the others come
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_EQ(last->front().integers[0], known.block[3]);
  }
}

}  // namespace
}  // namespace stitch::graph
