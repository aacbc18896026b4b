#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "graph/builder.h"
#include "graph/reference/evaluate.h"

// What the reference claims of sums with elements at the end of f32's range and beyond it: no more than holds in every
// order of additions.
namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

struct Sum {
  const char* name;
  std::vector<double> elements;
  double value;
  bool checked;
};

void PrintTo(const Sum& sum, std::ostream* out) { *out << sum.name; }

class SumsAtTheEnd : public testing::TestWithParam<Sum> {
 protected:
  static void check(const Result<Graph>& graph, const std::vector<Tensor>& arguments) {
    ASSERT_TRUE(graph) << graph.error().message;
    EvaluateOptions options;
    options.bounds = true;
    const auto results = evaluate(*graph, arguments, options);
    ASSERT_TRUE(results) << results.error().message;
    const Tensor& sum = (*results)[0];
    EXPECT_EQ(std::isfinite(sum.bound(0)), GetParam().checked);
    if (!GetParam().checked) return;
    if (std::isnan(GetParam().value)) {
      EXPECT_TRUE(std::isnan(sum.at(0)));
    } else {
      EXPECT_EQ(sum.at(0), GetParam().value);
      EXPECT_EQ(sum.bound(0), 0);
    }
  }

  static Tensor elements() {
    Tensor tensor = Tensor::zeros({DType::f32, {1, static_cast<std::int64_t>(GetParam().elements.size())}});
    tensor.floats = GetParam().elements;
    return tensor;
  }
};

TEST_P(SumsAtTheEnd, OfAReduction) {
  Builder b;
  const Value x = b.parameter(DType::f32, elements().type.dims);
  check(b.finish({b.reduce(ReduceKind::sum, x, {1})}), {elements()});
}

TEST_P(SumsAtTheEnd, OfAContraction) {
  Builder b;
  const Value x = b.parameter(DType::f32, elements().type.dims), ones = b.parameter(DType::f32, elements().type.dims);
  Tensor one = elements();
  std::fill(one.floats.begin(), one.floats.end(), 1.0);
  check(b.finish({b.dot(x, ones, {{}, {}, {1}, {1}, DType::f32})}), {elements(), one});
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SumsAtTheEnd,
    testing::Values(Sum{"infinity_and_little", {infinity, -1, 2}, infinity, true},
                    Sum{"infinity_and_what_may_become_the_other", {infinity, -3e38, -3e38}, infinity, false},
                    Sum{"infinity_and_what_may_bring_it_back", {infinity, -3e36}, infinity, false},
                    Sum{"both_infinities", {infinity, -infinity, 1}, nan, false},
                    Sum{"nan", {nan, -3e38, -3e38}, nan, true},
                    Sum{"beyond_the_range", {3e38, 3e38, 1}, infinity, true},
                    Sum{"there_and_back", {3e38, 3e38, -3e38}, 3e38, false}),
    [](const auto& each) { return each.param.name; });

// By a contraction 3.41e38 - 3e36 is finite; by a product that is rounded it is not. An addend of the same sign, or one
// too small for the rounding of the product to matter, leaves the infinity.
TEST(AdditionsAtTheEnd, AreUncheckedWhereAContractionComesBack) {
  struct Case {
    double product, addend;
    bool checked;
  };
  for (const Case& one : {Case{3.41e19, -3e36, false},
                          {-3.41e19, 3e36, false},
                          {3.41e19, 3e36, true},
                          {-3.41e19, -3e36, true},
                          {3.41e19, -3e33, true}}) {
    for (const bool subtracts : {false, true}) {
      Builder b;
      const Value x = b.parameter(DType::f32, {1}), y = b.parameter(DType::f32, {1}), z = b.parameter(DType::f32, {1});
      const Value product = b.binary(Op::multiply, x, y);
      const auto graph = b.finish({subtracts ? b.binary(Op::subtract, z, product) : b.binary(Op::add, product, z)});
      ASSERT_TRUE(graph) << graph.error().message;
      const auto number = [](double value) {
        Tensor tensor = Tensor::zeros({DType::f32, {1}});
        tensor.floats = {value};
        return tensor;
      };
      EvaluateOptions options;
      options.bounds = true;
      const double addend = subtracts ? -one.addend : one.addend;
      const auto sum = evaluate(*graph, std::vector{number(one.product), number(1e19), number(addend)}, options);
      ASSERT_TRUE(sum) << sum.error().message;
      EXPECT_EQ(std::isfinite((*sum)[0].bound(0)), one.checked) << one.product << " " << one.addend;
      if (!one.checked) continue;
      EXPECT_EQ((*sum)[0].at(0), std::copysign(infinity, subtracts ? -one.product : one.product));
    }
  }
}

// A selection that is not certain covers both sides, the smaller of which is lost in the rounding of their distance.
TEST(UncertainSelections, CoverBothSidesToTheLastBit) {
  const double no = -3.6929516940e17, yes = 3296;
  Builder b;
  const Value at = b.parameter(DType::f32, {1}), x = b.parameter(DType::f32, {1}), y = b.parameter(DType::f32, {1});
  const Value one = b.unary(Op::exp, at);
  const auto graph = b.finish({b.select(b.compare(Comparison::gt, one, b.filled(DType::f32, {1}, 1)), x, y)});
  ASSERT_TRUE(graph) << graph.error().message;
  std::vector<Tensor> arguments(3, Tensor::zeros({DType::f32, {1}}));
  arguments[0].floats = {1e-12};  // exp of it is 1 or a little more
  arguments[1].floats = {static_cast<float>(yes)};
  arguments[2].floats = {static_cast<float>(no)};
  EvaluateOptions options;
  options.bounds = true;
  const auto selected = evaluate(*graph, arguments, options);
  ASSERT_TRUE(selected) << selected.error().message;
  for (const Tensor& side : {arguments[1], arguments[2]})
    EXPECT_TRUE(accepts((*selected)[0].at(0), (*selected)[0].bound(0), side.at(0))) << side.at(0);
}

/// A sum of integers, one of which is uncertain by one: at the end of its range it may wrap around.
TEST(SumsOfIntegers, AreUncheckedWhereTheyMayWrapAround) {
  for (const auto& [other, checked] : {std::pair(16000.0, true), {16384.0, false}}) {
    Builder b;
    const Value x = b.parameter(DType::f32, {2});
    const Value rounded = b.convert(b.unary(Op::exp, x), DType::s16);
    const auto graph = b.finish({b.reduce(ReduceKind::sum, rounded, {0})});
    ASSERT_TRUE(graph) << graph.error().message;
    Tensor logarithms = Tensor::zeros({DType::f32, {2}});
    logarithms.floats = {std::log(16384.0), std::log(other + 0.5)};
    EvaluateOptions options;
    options.bounds = true;
    const auto sum = evaluate(*graph, std::vector<Tensor>{logarithms}, options);
    ASSERT_TRUE(sum) << sum.error().message;
    EXPECT_GT((*sum)[0].bound(0), 0);
    EXPECT_EQ(std::isfinite((*sum)[0].bound(0)), checked) << other;
  }
}

}  // namespace
}  // namespace stitch::graph
