#include "graph/reference/narrow_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "graph/builder.h"

namespace stitch::graph::reference {
namespace {

double loss_of(const std::vector<double>& a, const std::vector<double>& b, std::int64_t part) {
  return narrow_loss({a.data(), nullptr, b.data(), nullptr, std::ssize(a)}, part, 0, 0);
}

TEST(NarrowSums, LoseNothingOfNothing) { EXPECT_EQ(loss_of(std::vector(256, 0.0), std::vector(256, 1.0), 128), 0); }

/// One instruction on a sum of zero: 33 times what is cut off of the largest, and of the result what it keeps no bit
/// of.
TEST(NarrowSums, LoseAShareOfTheLargest) {
  std::vector<double> a(32, 0.0);
  a[7] = 3;
  const double aligned = 33 * narrow_unit * 6, kept = narrow_unit * (6 + aligned);
  EXPECT_DOUBLE_EQ(loss_of(a, std::vector(32, 2.0), 128), aligned + kept);
}

/// Of one sign: what is lost grows with the sum that is added to, unless that begins anew.
TEST(NarrowSums, LoseLessInParts) {
  const std::vector<double> ones(8192, 1.0);
  const double whole = loss_of(ones, ones, 8192), parts = loss_of(ones, ones, 128);
  EXPECT_LT(parts, 8192 * 0.02);
  EXPECT_GT(whole, 40 * parts);
}

TEST(NarrowSums, CountTheOperandsBounds) {
  const std::vector<double> a(64, 1.0), off(64, 0.5);
  const double exact = loss_of(a, a, 128);
  EXPECT_GT(narrow_loss({a.data(), off.data(), a.data(), nullptr, 64}, 128, 0, 0), 1.4 * exact);
  EXPECT_GT(narrow_loss({a.data(), nullptr, a.data(), nullptr, 64}, 128, 64, 0), 1.4 * exact) << "aligned as 64";
}

TEST(NarrowSums, AreThoseOfSmallFloats) {
  const auto is_narrow = [](DType dtype, bool scaled) {
    Builder b;
    Value x = b.parameter(dtype, {16, 64});
    const Value w = b.parameter(DType::f8e5m2, {8, 64});
    Value y = w;
    if (scaled) {
      x = b.binary(Op::multiply, b.convert(x, DType::f32), b.filled(DType::f32, {16, 64}, 0.5));
      y = b.convert(w, DType::f32);
    }
    const Value dot = b.dot(x, y, {{}, {}, {1}, {1}, DType::f32});
    const auto graph = b.finish({dot});
    return is_narrow_product(*graph, graph->node(dot.node));
  };
  EXPECT_TRUE(is_narrow(DType::f8e4m3, false));
  EXPECT_TRUE(is_narrow(DType::f8e4m3, true));
  EXPECT_FALSE(is_narrow(DType::bf16, true));
}

}  // namespace
}  // namespace stitch::graph::reference
