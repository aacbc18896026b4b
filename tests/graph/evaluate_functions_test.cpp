// Functions that the evaluator computes itself, where no C function gives the value to compare with.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "graph/builder.h"
#include "graph/reference/evaluate.h"

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

}  // namespace
}  // namespace stitch::graph
