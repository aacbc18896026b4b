// Special functions that are written out, as XLA does, and what only looks like one.
#include <gtest/gtest.h>

#include <initializer_list>

#include "graph/literal.h"
#include "graph/passes/expansions.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_rewrites;
using test::MakeGraph;
using Values = std::vector<Value>;

const Dims shape = {5, 40};

class Expansion {
 public:
  Expansion(Builder& builder, DType type) : b_(builder), type_(type) {}

  Value constant(double number) { return b_.filled(type_, shape, number); }
  Value times(Value x, Value y) { return b_.binary(Op::multiply, x, y); }

  /// Horner's scheme, the highest power first.
  Value polynomial(Value x, std::initializer_list<double> coefficients) {
    Value sum;
    for (const double c : coefficients)
      sum = sum.node < 0 ? constant(c) : b_.binary(Op::add, times(sum, x), constant(c));
    return sum;
  }

  /// erf(x), |x| < 1, as XLA's ErfcImpl32 has it; `last` is the coefficient of x.
  Value erf_near_zero(Value x, double last) {
    return times(x, polynomial(times(x, x), {7.85386146e-05, -0.000801019371, 0.00518832775, -0.0268538129, 0.112835854,
                                             -0.37612626, last}));
  }

  /// erfc(x), |x| ≥ 1; with `negated` erfc(-x).
  Value erfc_far_away(Value x, bool negated = false) {
    const Value square = times(x, x), exponent = b_.unary(Op::negate, square), one = constant(1), two = constant(2);
    const Value size = b_.unary(Op::abs, x), inverse = b_.binary(Op::divide, one, square);
    const Value near = polynomial(inverse, {0.0232682, -0.138703942, 0.368742466, -0.582473278, 0.621000469,
                                            -0.494451523, 0.340488, -0.274112701, 0.563825965});
    const Value far = polynomial(
        inverse, {-10.477664, 12.9772, -7.49551868, 2.92101908, -1.01526523, 0.42184633, -0.282076746, 0.564189494});
    const Value series = b_.select(b_.compare(Comparison::lt, size, two), near, far);
    const Value scale = times(b_.unary(Op::exp, exponent), b_.binary(Op::divide, one, size));
    const Value small = b_.compare(Comparison::lt, exponent, constant(-88.7228394));
    const Value of_size = b_.select(small, constant(0), times(scale, series));
    const Value low = b_.compare(negated ? Comparison::gt : Comparison::lt, x, constant(0));
    return b_.select(low, b_.binary(Op::subtract, two, of_size), of_size);
  }

  Value erfc(Value x, double last = 1.12837911) {
    const Value is_near = b_.compare(Comparison::lt, b_.unary(Op::abs, x), constant(1));
    return b_.select(is_near, b_.binary(Op::subtract, constant(1), erf_near_zero(x, last)), erfc_far_away(x));
  }

  /// As XLA's ErfImpl32 has it.
  Value erf(Value argument) {
    const Value x = b_.add(Op::clamp, {constant(-3.832506856900711), argument, constant(3.832506856900711)});
    const Value square = times(x, x);
    const Value above = polynomial(square, {0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861,
                                            0.18520832239976145, 1.128379143519084});
    const Value below = polynomial(square, {-1.1791602954361697e-7, 0.000023547966471313185, 0.0010179625278914885,
                                            0.014070470171167667, 0.11098505178285362, 0.49746925110067538, 1.0});
    return b_.binary(Op::divide, times(x, above), below);
  }

 private:
  Builder& b_;
  DType type_;
};

MakeGraph of_x(const std::function<Value(Builder&, Expansion, Value)>& make, DType type = DType::f32) {
  return [=](Builder& b) { return Values{make(b, Expansion(b, type), b.parameter(type, shape))}; };
}

MakeGraph function(Op op) {
  return of_x([=](Builder& b, Expansion, Value x) { return b.unary(op, x); });
}

TEST(PassesExpansions, TakeWhatIsWrittenOutForTheFunction) {
  expect_rewrites(recognise_expansions,
                  {
                      {"erfc(x)", of_x([](Builder&, Expansion e, Value x) { return e.erfc(x); }), function(Op::erfc)},
                      {"erf(x)", of_x([](Builder&, Expansion e, Value x) { return e.erf(x); }), function(Op::erf)},
                      // The argument is found although more operators lie before it.
                      {"x·erfc(-x/√2)/2", of_x([](Builder& b, Expansion e, Value x) {
                         const Value scaled = e.times(b.unary(Op::negate, x), e.constant(0.70710678));
                         return e.times(e.times(x, e.constant(0.5)), e.erfc(scaled));
                       }),
                       of_x([](Builder& b, Expansion e, Value x) {
                         const Value scaled = e.times(b.unary(Op::negate, x), e.constant(0.70710678));
                         return e.times(e.times(x, e.constant(0.5)), b.unary(Op::erfc, scaled));
                       })},
                      // A negation that another pass has drawn into the expansion.
                      {"1 + erf(x)", of_x([](Builder& b, Expansion e, Value x) {
                         const Value is_near = b.compare(Comparison::lt, b.unary(Op::abs, x), e.constant(1));
                         const Value near = b.binary(Op::add, e.constant(1), e.erf_near_zero(x, 1.12837911));
                         return b.select(is_near, near, e.erfc_far_away(x, true));
                       }),
                       of_x([](Builder& b, Expansion, Value x) { return b.unary(Op::erfc, b.unary(Op::negate, x)); })},
                  });
}

TEST(PassesExpansions, WhatOthersUseStays) {
  const auto gradient = [](Builder& b, Value x) {
    return b.unary(Op::exp, b.unary(Op::negate, b.binary(Op::multiply, x, x)));
  };
  expect_rewrites(recognise_expansions, {{"erfc and its derivative",
                                          [=](Builder& b) {
                                            const Value x = b.parameter(DType::f32, shape);
                                            return Values{Expansion(b, DType::f32).erfc(x), gradient(b, x)};
                                          },
                                          [=](Builder& b) {
                                            const Value x = b.parameter(DType::f32, shape);
                                            return Values{b.unary(Op::erfc, x), gradient(b, x)};
                                          }}});
}

TEST(PassesExpansions, LeaveAloneWhatDiffers) {
  expect_rewrites(
      recognise_expansions,
      {
          {"a coefficient", of_x([](Builder&, Expansion e, Value x) { return e.erfc(x, 1.12838); })},
          {"a branch is missing", of_x([](Builder&, Expansion e, Value x) { return e.erfc_far_away(x); })},
          {"another input",
           [](Builder& b) {
             const Value x = b.parameter(DType::f32, shape), y = b.parameter(DType::f32, shape);
             Expansion e(b, DType::f32);
             const Value is_near = b.compare(Comparison::lt, b.unary(Op::abs, y), e.constant(1));
             const Value near = b.binary(Op::subtract, e.constant(1), e.erf_near_zero(x, 1.12837911));
             return Values{b.select(is_near, near, e.erfc_far_away(x))};
           }},
          {"f64 wants more digits", of_x([](Builder&, Expansion e, Value x) { return e.erfc(x); }, DType::f64)},
      });
}

TEST(PassesExpansions, NeedLeaveToReassociate) {
  Graph graph = test::made(of_x([](Builder&, Expansion e, Value x) { return e.erfc(x); }));
  PassContext context;
  context.reassociate = false;
  const Result<int> changed = recognise_expansions(graph, context);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(*changed, 0);
}

}  // namespace
}  // namespace stitch::graph
