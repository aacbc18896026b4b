// Rule tables of the element-wise passes: arithmetic, functions, conversions, choices.
#include <gtest/gtest.h>

#include <limits>

#include "graph/literal.h"
#include "graph/passes/arithmetic.h"
#include "graph/passes/choices.h"
#include "graph/passes/conversions.h"
#include "graph/passes/functions.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_rewrites;
using test::MakeGraph;
using test::PassCase;
using Values = std::vector<Value>;

constexpr DType f32 = DType::f32, s32 = DType::s32, pred = DType::pred;
constexpr double infinity = std::numeric_limits<double>::infinity();

const Dims shape = {3, 4};

/// x op c, with a splat constant.
MakeGraph with_constant(Op op, DType dtype, double c, bool constant_first = false) {
  return [=](Builder& b) {
    const Value x = b.parameter(dtype, shape), y = b.filled(dtype, shape, c);
    return Values{constant_first ? b.binary(op, y, x) : b.binary(op, x, y)};
  };
}

MakeGraph identity(DType dtype) {
  return [=](Builder& b) { return Values{b.parameter(dtype, shape)}; };
}

MakeGraph one(Op op, DType dtype = f32) {
  return [=](Builder& b) { return Values{b.unary(op, b.parameter(dtype, shape))}; };
}

/// A graph of x and y, both of `shape`.
MakeGraph of_two(DType dtype, const std::function<Value(Builder&, Value, Value)>& make) {
  return [=](Builder& b) {
    const Value x = b.parameter(dtype, shape), y = b.parameter(dtype, shape);
    return Values{make(b, x, y)};
  };
}

MakeGraph of_one(DType dtype, const std::function<Value(Builder&, Value)>& make) {
  return [=](Builder& b) { return Values{make(b, b.parameter(dtype, shape))}; };
}

TEST(PassesArithmetic, NeutralOperands) {
  expect_rewrites(simplify_arithmetic,
                  {
                      {"x + 0", with_constant(Op::add, f32, 0), identity(f32)},
                      {"0 + x", with_constant(Op::add, f32, 0, true), identity(f32)},
                      {"x - 0", with_constant(Op::subtract, f32, 0), identity(f32)},
                      {"0 - x", with_constant(Op::subtract, f32, 0, true), one(Op::negate)},
                      {"x * 1", with_constant(Op::multiply, f32, 1), identity(f32)},
                      {"x * -1", with_constant(Op::multiply, f32, -1), one(Op::negate)},
                      {"x / 1", with_constant(Op::divide, f32, 1), identity(f32)},
                      {"x / -1", with_constant(Op::divide, s32, -1), one(Op::negate, s32)},
                      {"integer x * 0", with_constant(Op::multiply, s32, 0),
                       [](Builder& b) {
                         b.parameter(s32, shape);
                         return Values{b.filled(s32, shape, 0)};
                       }},
                      {"integer x % 1", with_constant(Op::remainder, s32, 1),
                       [](Builder& b) {
                         b.parameter(s32, shape);
                         return Values{b.filled(s32, shape, 0)};
                       }},
                      {"integer x - x", of_one(s32, [](Builder& b, Value x) { return b.binary(Op::subtract, x, x); }),
                       [](Builder& b) {
                         b.parameter(s32, shape);
                         return Values{b.filled(s32, shape, 0)};
                       }},
                      {"u32 x / (all ones) is not x / -1", with_constant(Op::divide, DType::u32, 4294967295.0)},
                  });
}

TEST(PassesArithmetic, WhatNaNForbids) {
  expect_rewrites(simplify_arithmetic,
                  {
                      {"float x * 0", with_constant(Op::multiply, f32, 0)},
                      {"float 0 / x", with_constant(Op::divide, f32, 0, true)},
                      {"float x - x", of_one(f32, [](Builder& b, Value x) { return b.binary(Op::subtract, x, x); })},
                      {"float x % 1", with_constant(Op::remainder, f32, 1)},
                  });
}

TEST(PassesArithmetic, NegationsMoveOutwards) {
  const auto neg = [](Builder& b, Value x) { return b.unary(Op::negate, x); };
  expect_rewrites(
      simplify_arithmetic,
      {
          {"-(-x)", of_one(f32, [=](Builder& b, Value x) { return neg(b, neg(b, x)); }), identity(f32)},
          {"x + (-y)", of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::add, x, neg(b, y)); }),
           of_two(f32, [](Builder& b, Value x, Value y) { return b.binary(Op::subtract, x, y); })},
          {"(-x) + y", of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::add, neg(b, x), y); }),
           of_two(f32, [](Builder& b, Value x, Value y) { return b.binary(Op::subtract, y, x); })},
          {"x - (-y)", of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::subtract, x, neg(b, y)); }),
           of_two(f32, [](Builder& b, Value x, Value y) { return b.binary(Op::add, x, y); })},
          {"(-x) - y", of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::subtract, neg(b, x), y); }),
           of_two(f32, [=](Builder& b, Value x, Value y) { return neg(b, b.binary(Op::add, x, y)); })},
          {"-(x - y)", of_two(f32, [=](Builder& b, Value x, Value y) { return neg(b, b.binary(Op::subtract, x, y)); }),
           of_two(f32, [](Builder& b, Value x, Value y) { return b.binary(Op::subtract, y, x); })},
          {"(-x) * (-y)",
           of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::multiply, neg(b, x), neg(b, y)); }),
           of_two(f32, [](Builder& b, Value x, Value y) { return b.binary(Op::multiply, x, y); })},
          {"x * (-y)", of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::multiply, x, neg(b, y)); }),
           of_two(f32, [=](Builder& b, Value x, Value y) { return neg(b, b.binary(Op::multiply, x, y)); })},
          {"(-x) / y", of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::divide, neg(b, x), y); }),
           of_two(f32, [=](Builder& b, Value x, Value y) { return neg(b, b.binary(Op::divide, x, y)); })},
          {"(-x) * 3",
           of_one(f32, [=](Builder& b, Value x) { return b.binary(Op::multiply, neg(b, x), b.filled(f32, shape, 3)); }),
           with_constant(Op::multiply, f32, -3)},
          {"-(x * 3)",
           of_one(f32, [=](Builder& b, Value x) { return neg(b, b.binary(Op::multiply, x, b.filled(f32, shape, 3))); }),
           with_constant(Op::multiply, f32, -3)},
          {"abs(-x)", of_one(f32, [=](Builder& b, Value x) { return b.unary(Op::abs, neg(b, x)); }), one(Op::abs)},
          {"abs of unsigned", one(Op::abs, DType::u32), identity(DType::u32)},
          {"the broadcast negation of an addend",
           [=](Builder& b) {
             const Value x = b.parameter(f32, shape), y = b.parameter(f32, {3});
             return Values{b.binary(Op::add, x, b.broadcast(neg(b, y), shape, {0}))};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, shape), y = b.parameter(f32, {3});
             return Values{b.binary(Op::subtract, x, b.broadcast(y, shape, {0}))};
           }},
      });
}

TEST(PassesArithmetic, ConstantsOfAChainMeet) {
  const auto c = [](Builder& b, double value, DType dtype = f32) { return b.filled(dtype, shape, value); };
  expect_rewrites(
      simplify_arithmetic,
      {
          {"x - 3", with_constant(Op::subtract, f32, 3), with_constant(Op::add, f32, -3)},
          {"(x + 1) + 2",
           of_one(f32, [=](Builder& b, Value x) { return b.binary(Op::add, b.binary(Op::add, x, c(b, 1)), c(b, 2)); }),
           with_constant(Op::add, f32, 3)},
          {"(99 - i) - 1, as a loop counts down",
           of_one(s32,
                  [=](Builder& b, Value x) {
                    return b.binary(Op::subtract, b.binary(Op::subtract, c(b, 99, s32), x), c(b, 1, s32));
                  }),
           with_constant(Op::subtract, s32, 98, true)},
          {"5 - (2 - x)",
           of_one(s32,
                  [=](Builder& b, Value x) {
                    return b.binary(Op::subtract, c(b, 5, s32), b.binary(Op::subtract, c(b, 2, s32), x));
                  }),
           with_constant(Op::add, s32, 3)},
          {"(x * 2) * 3",
           of_one(f32, [=](Builder& b,
                           Value x) { return b.binary(Op::multiply, b.binary(Op::multiply, x, c(b, 2)), c(b, 3)); }),
           with_constant(Op::multiply, f32, 6)},
          {"x + x", of_one(f32, [](Builder& b, Value x) { return b.binary(Op::add, x, x); }),
           with_constant(Op::multiply, f32, 2)},
          {"x / 8", with_constant(Op::divide, f32, 8), with_constant(Op::multiply, f32, 0.125)},
          {"x / 3", with_constant(Op::divide, f32, 3), with_constant(Op::multiply, f32, 1.0 / 3)},
          {"bf16 x / 3 keeps its rounding", with_constant(Op::divide, DType::bf16, 3)},
          {"a reciprocal that is no normal number", with_constant(Op::divide, f32, 3e38)},
          {"a quotient that is rounded behind a sum",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 6});
             const Value q = b.binary(Op::divide, x, b.filled(f32, {4, 6}, 3));
             return Values{b.unary(Op::round_even, b.binary(Op::add, q, x))};
           }},
          {"a product that overflows", of_one(f32,
                                              [=](Builder& b, Value x) {
                                                return b.binary(Op::multiply, b.binary(Op::multiply, x, c(b, 1e30)),
                                                                c(b, 1e30));
                                              })},
          {"a chain in the middle of which others look",
           [=](Builder& b) {
             const Value x = b.parameter(f32, shape), half = b.binary(Op::multiply, x, c(b, 0.5));
             return Values{half, b.binary(Op::multiply, half, c(b, 3))};
           }},
          {"8-bit integers wrap",
           of_one(DType::s8,
                  [=](Builder& b, Value x) {
                    return b.binary(Op::add, b.binary(Op::add, x, c(b, 100, DType::s8)), c(b, 100, DType::s8));
                  }),
           with_constant(Op::add, DType::s8, -56)},
      });
}

TEST(PassesArithmetic, SmallFactorsMeet) {
  const MakeGraph two_factors = [](Builder& b) {
    const Value x = b.parameter(f32, shape), g = b.broadcast(b.parameter(f32, {4}), shape, {1});
    const Value r = b.broadcast(b.parameter(f32, {4}), shape, {1});
    return Values{b.binary(Op::multiply, b.binary(Op::multiply, x, r), g)};
  };
  const MakeGraph divided = [](Builder& b) {
    const Value x = b.parameter(f32, shape), d = b.parameter(f32, {3});
    return Values{b.binary(Op::divide, x, b.broadcast(b.unary(Op::exp, d), shape, {0}))};
  };
  expect_rewrites(simplify_arithmetic,
                  {{"(x · r) · g", two_factors,
                    [](Builder& b) {
                      const Value x = b.parameter(f32, shape), g = b.broadcast(b.parameter(f32, {4}), shape, {1});
                      const Value r = b.broadcast(b.parameter(f32, {4}), shape, {1});
                      return Values{b.binary(Op::multiply, x, b.binary(Op::multiply, r, g))};
                    }},
                   {"(x · rows) · columns stays",
                    [](Builder& b) {
                      const Value x = b.parameter(f32, shape), g = b.broadcast(b.parameter(f32, {4}), shape, {1});
                      const Value r = b.broadcast(b.parameter(f32, {3}), shape, {0});
                      return Values{b.binary(Op::multiply, b.binary(Op::multiply, x, r), g)};
                    }},
                   {"x / broadcast: the reciprocal is taken on the small side", divided, [](Builder& b) {
                      const Value x = b.parameter(f32, shape), d = b.unary(Op::exp, b.parameter(f32, {3}));
                      const Value inverse = b.binary(Op::divide, b.filled(f32, {3}, 1), d);
                      return Values{b.binary(Op::multiply, x, b.broadcast(inverse, shape, {0}))};
                    }}});
  PassContext strict;
  strict.reassociate = false;
  expect_rewrites(simplify_arithmetic,
                  {{"strict: factors", two_factors},
                   {"strict: division by a broadcast", divided},
                   {"strict: x / 3", with_constant(Op::divide, f32, 3)},
                   {"strict: x / 4", with_constant(Op::divide, f32, 4), with_constant(Op::multiply, f32, 0.25)}},
                  strict);
}

TEST(PassesArithmetic, PowersAndRoots) {
  const auto power = [](double c) { return with_constant(Op::power, f32, c); };
  const auto sqrt_of_square = [](Builder& b, Value y) { return b.unary(Op::sqrt, b.binary(Op::multiply, y, y)); };
  const auto rsqrt_of_square = [](Builder& b, Value y) { return b.unary(Op::rsqrt, b.binary(Op::multiply, y, y)); };
  expect_rewrites(
      simplify_functions,
      {
          {"x^0", power(0),
           [](Builder& b) {
             b.parameter(f32, shape);
             return Values{b.filled(f32, shape, 1)};
           }},
          {"x^1", power(1), identity(f32)},
          {"x^2", power(2), of_one(f32, [](Builder& b, Value x) { return b.binary(Op::multiply, x, x); })},
          {"x^3", power(3),
           of_one(f32, [](Builder& b, Value x) { return b.binary(Op::multiply, b.binary(Op::multiply, x, x), x); })},
          {"x^4", power(4),
           of_one(f32,
                  [](Builder& b, Value x) {
                    const Value square = b.binary(Op::multiply, x, x);
                    return b.binary(Op::multiply, square, square);
                  })},
          {"x^-1", power(-1), with_constant(Op::divide, f32, 1, true)},
          {"x^0.5", power(0.5), one(Op::sqrt)},
          {"x^-0.5", power(-0.5), one(Op::rsqrt)},
          {"x^2.5 stays", power(2.5)},
          {"integer x^2", with_constant(Op::power, s32, 2),
           of_one(s32, [](Builder& b, Value x) { return b.binary(Op::multiply, x, x); })},
          {"integer x^-1 stays", with_constant(Op::power, s32, -1)},
          {"1 / sqrt(y²)",
           of_one(f32, [=](Builder& b,
                           Value y) { return b.binary(Op::divide, b.filled(f32, shape, 1), sqrt_of_square(b, y)); }),
           of_one(f32, rsqrt_of_square)},
          {"x / sqrt(y²)",
           of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::divide, x, sqrt_of_square(b, y)); }),
           of_two(f32, [=](Builder& b, Value x, Value y) { return b.binary(Op::multiply, x, rsqrt_of_square(b, y)); })},
          {"1 / rsqrt(y²)",
           of_one(f32, [=](Builder& b,
                           Value y) { return b.binary(Op::divide, b.filled(f32, shape, 1), rsqrt_of_square(b, y)); }),
           of_one(f32, sqrt_of_square)},
          {"log(1 + x) stays",
           of_one(f32,
                  [](Builder& b, Value x) { return b.unary(Op::log, b.binary(Op::add, x, b.filled(f32, shape, 1))); })},
      });
}

TEST(PassesArithmetic, LogisticIsRecognised) {
  const auto one_plus_exp = [](Builder& b, Value x) {
    return b.binary(Op::add, b.unary(Op::exp, b.unary(Op::negate, x)), b.filled(f32, shape, 1));
  };
  expect_rewrites(
      simplify_functions,
      {
          {"1 / (1 + exp(-x))",
           of_one(f32, [=](Builder& b,
                           Value x) { return b.binary(Op::divide, b.filled(f32, shape, 1), one_plus_exp(b, x)); }),
           one(Op::logistic)},
          {"silu: x / (1 + exp(-x))",
           of_one(f32, [=](Builder& b, Value x) { return b.binary(Op::divide, x, one_plus_exp(b, x)); }),
           of_one(f32, [](Builder& b, Value x) { return b.binary(Op::multiply, x, b.unary(Op::logistic, x)); })},
          {"1 / (2 + exp(-x)) stays", of_one(f32,
                                             [](Builder& b, Value x) {
                                               const Value e = b.unary(Op::exp, b.unary(Op::negate, x));
                                               return b.binary(Op::divide, b.filled(f32, shape, 1),
                                                               b.binary(Op::add, e, b.filled(f32, shape, 2)));
                                             })},
      });
}

MakeGraph chain(DType from, const std::vector<DType>& to) {
  return [=](Builder& b) {
    Value x = b.parameter(from, shape);
    for (const DType dtype : to) x = b.add(Op::convert, {x}, ConvertAttributes{dtype});
    return Values{x};
  };
}

TEST(PassesArithmetic, ConversionChains) {
  using enum DType;
  expect_rewrites(
      simplify_conversions,
      {
          {"same", chain(DType::f32, {DType::f32}), identity(DType::f32)},
          {"f32 → f64 → f32", chain(DType::f32, {f64, DType::f32}), identity(DType::f32)},
          {"bf16 → f32 → bf16", chain(bf16, {DType::f32, bf16}), identity(bf16)},
          {"bf16 → f32 → f16", chain(bf16, {DType::f32, f16}), chain(bf16, {f16})},
          {"f16 → f32 → f64", chain(f16, {DType::f32, f64}), chain(f16, {f64})},
          {"f32 → bf16 → f32 rounds", chain(DType::f32, {bf16, DType::f32})},
          {"f64 → f32 → bf16 rounds twice", chain(f64, {DType::f32, bf16})},
          {"bf16 → f16 loses range", chain(bf16, {f16, DType::f32})},
          {"s8 → s32 → s64", chain(s8, {DType::s32, s64}), chain(s8, {s64})},
          {"s64 → s32 → s16 truncates twice", chain(s64, {DType::s32, s16}), chain(s64, {s16})},
          {"s64 → s32 → s64 truncates", chain(s64, {DType::s32, s64})},
          {"u8 → s16 → s32", chain(u8, {s16, DType::s32}), chain(u8, {DType::s32})},
          {"s8 → u16 → s32 does not sign-extend twice", chain(s8, {u16, DType::s32})},
          {"s32 → f64 → f32", chain(DType::s32, {f64, DType::f32}), chain(DType::s32, {DType::f32})},
          {"s32 → f32 → f64 rounds", chain(DType::s32, {DType::f32, f64})},
          {"s16 → f32 → s16", chain(s16, {DType::f32, s16}), identity(s16)},
          {"pred → s32 → f32", chain(DType::pred, {DType::s32, DType::f32}), chain(DType::pred, {DType::f32})},
          {"f32 → s32 → f32", chain(DType::f32, {DType::s32, DType::f32})},
      });
}

TEST(PassesArithmetic, OtherConversions) {
  expect_rewrites(
      simplify_conversions,
      {
          {"bitcast there and back",
           of_one(f32, [](Builder& b, Value x) { return b.bitcast(b.bitcast(x, DType::u32), f32); }), identity(f32)},
          {"bitcast of bitcast",
           of_one(f32, [](Builder& b, Value x) { return b.bitcast(b.bitcast(x, DType::u32), s32); }),
           of_one(f32, [](Builder& b, Value x) { return b.bitcast(x, s32); })},
          {"convert of iota", [](Builder& b) { return Values{b.convert(b.iota(s32, {7}, 0), f32)}; },
           [](Builder& b) { return Values{b.iota(f32, {7}, 0)}; }},
          {"select(c, 1, 0)",
           of_one(pred,
                  [](Builder& b, Value c) { return b.select(c, b.filled(f32, shape, 1), b.filled(f32, shape, 0)); }),
           of_one(pred, [](Builder& b, Value c) { return b.convert(c, f32); })},
      });
}

TEST(PassesArithmetic, HoldsAllValues) {
  struct Row {
    DType to, from;
    bool holds;
  };
  for (const Row& row : std::vector<Row>{{DType::f32, DType::bf16, true},
                                         {DType::f16, DType::bf16, false},
                                         {DType::bf16, DType::f16, false},
                                         {DType::f16, DType::f8e4m3, true},
                                         {DType::f8e4m3, DType::f8e5m2, false},
                                         {DType::s32, DType::u32, false},
                                         {DType::s64, DType::u32, true},
                                         {DType::u32, DType::s8, false},
                                         {DType::f32, DType::s16, true},
                                         {DType::f32, DType::s32, false},
                                         {DType::f64, DType::s32, true},
                                         {DType::f16, DType::s8, false},
                                         {DType::f32, DType::pred, true},
                                         {DType::pred, DType::u8, false}}) {
    EXPECT_EQ(holds_all_values(row.to, row.from), row.holds) << to_string(row.to) << " " << to_string(row.from);
  }
}

TEST(PassesArithmetic, Selections) {
  const auto flag = [](Builder& b, bool value) { return b.filled(pred, shape, value ? 1 : 0); };
  const auto of_three = [](const std::function<Value(Builder&, Value, Value, Value)>& make) -> MakeGraph {
    return [=](Builder& b) {
      const Value c = b.parameter(pred, shape), x = b.parameter(f32, shape), y = b.parameter(f32, shape);
      return Values{make(b, c, x, y)};
    };
  };
  expect_rewrites(
      simplify_choices,
      {
          {"true", of_two(f32, [=](Builder& b, Value x, Value y) { return b.select(flag(b, true), x, y); }),
           of_two(f32, [](Builder&, Value x, Value) { return x; })},
          {"false", of_two(f32, [=](Builder& b, Value x, Value y) { return b.select(flag(b, false), x, y); }),
           of_two(f32, [](Builder&, Value, Value y) { return y; })},
          {"equal branches", of_three([](Builder& b, Value c, Value x, Value) { return b.select(c, x, x); }),
           of_three([](Builder&, Value, Value x, Value) { return x; })},
          {"negated condition",
           of_three([](Builder& b, Value c, Value x, Value y) { return b.select(b.unary(Op::bit_not, c), x, y); }),
           of_three([](Builder& b, Value c, Value x, Value y) { return b.select(c, y, x); })},
          {"nested on one condition", of_three([](Builder& b, Value c, Value x, Value y) {
             return b.select(c, b.select(c, x, y), b.select(c, x, b.unary(Op::exp, y)));
           }),
           of_three([](Builder& b, Value c, Value x, Value y) { return b.select(c, x, b.unary(Op::exp, y)); })},
          {"of preds: and", of_two(pred, [=](Builder& b, Value c, Value x) { return b.select(c, x, flag(b, false)); }),
           of_two(pred, [](Builder& b, Value c, Value x) { return b.binary(Op::bit_and, c, x); })},
          {"of preds: or", of_two(pred, [=](Builder& b, Value c, Value x) { return b.select(c, flag(b, true), x); }),
           of_two(pred, [](Builder& b, Value c, Value x) { return b.binary(Op::bit_or, c, x); })},
          {"of preds: not",
           of_one(pred, [=](Builder& b, Value c) { return b.select(c, flag(b, false), flag(b, true)); }),
           one(Op::bit_not, pred)},
      });
}

TEST(PassesArithmetic, Comparisons) {
  const auto against = [](Comparison direction, DType dtype, double c, bool constant_first = false) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = b.parameter(dtype, shape), y = b.filled(dtype, shape, c);
      return Values{constant_first ? b.compare(direction, y, x) : b.compare(direction, x, y)};
    };
  };
  const auto reflexive = [](Comparison direction, DType dtype) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = b.parameter(dtype, shape);
      return Values{b.compare(direction, x, x)};
    };
  };
  const auto constant = [](DType dtype, bool value) -> MakeGraph {
    return [=](Builder& b) {
      b.parameter(dtype, shape);
      return Values{b.filled(pred, shape, value ? 1 : 0)};
    };
  };
  expect_rewrites(
      simplify_choices,
      {
          {"constants stand right", against(Comparison::lt, f32, 2, true), against(Comparison::gt, f32, 2)},
          {"integer x <= 3", against(Comparison::le, s32, 3), against(Comparison::lt, s32, 4)},
          {"integer x > 3", against(Comparison::gt, s32, 3), against(Comparison::ge, s32, 4)},
          {"integer x <= largest", against(Comparison::le, s32, 2147483647.0)},
          {"float x <= 3", against(Comparison::le, f32, 3)},
          {"integer x == x", reflexive(Comparison::eq, s32), constant(s32, true)},
          {"integer x < x", reflexive(Comparison::lt, s32), constant(s32, false)},
          {"float x == x may be NaN", reflexive(Comparison::eq, f32)},
          {"pred == true", against(Comparison::eq, pred, 1), identity(pred)},
          {"pred != true", against(Comparison::ne, pred, 1), one(Op::bit_not, pred)},
          {"pred >= false", against(Comparison::ge, pred, 0), constant(pred, true)},
          {"converted pred != 0",
           of_one(pred, [](Builder& b,
                           Value c) { return b.compare(Comparison::ne, b.convert(c, f32), b.filled(f32, shape, 0)); }),
           identity(pred)},
          {"not (integer x < y)",
           of_two(s32,
                  [](Builder& b, Value x, Value y) { return b.unary(Op::bit_not, b.compare(Comparison::lt, x, y)); }),
           of_two(s32, [](Builder& b, Value x, Value y) { return b.compare(Comparison::ge, x, y); })},
          {"not (float x == y)",
           of_two(f32,
                  [](Builder& b, Value x, Value y) { return b.unary(Op::bit_not, b.compare(Comparison::eq, x, y)); }),
           of_two(f32, [](Builder& b, Value x, Value y) { return b.compare(Comparison::ne, x, y); })},
          {"not (float x < y) is not x >= y: NaN",
           of_two(f32,
                  [](Builder& b, Value x, Value y) { return b.unary(Op::bit_not, b.compare(Comparison::lt, x, y)); })},
      });
}

TEST(PassesArithmetic, ExtremesAndBits) {
  const auto nested = [](Op op, double inner, double outer) {
    return of_one(f32, [=](Builder& b, Value x) {
      return b.binary(op, b.binary(op, x, b.filled(f32, shape, inner)), b.filled(f32, shape, outer));
    });
  };
  const auto clamp = [](double low, double high) {
    return of_one(f32, [=](Builder& b, Value x) {
      return b.add(Op::clamp, {b.filled(f32, shape, low), x, b.filled(f32, shape, high)});
    });
  };
  expect_rewrites(
      simplify_choices,
      {
          {"max(x, -inf)", with_constant(Op::maximum, f32, -infinity), identity(f32)},
          {"max(-inf, x)", with_constant(Op::maximum, f32, -infinity, true), identity(f32)},
          {"min(x, +inf)", with_constant(Op::minimum, f32, infinity), identity(f32)},
          {"min(x, -inf) stays: NaN", with_constant(Op::minimum, f32, -infinity)},
          {"max(x, x)", of_one(f32, [](Builder& b, Value x) { return b.binary(Op::maximum, x, x); }), identity(f32)},
          {"max(max(x, 1), 2)", nested(Op::maximum, 1, 2), with_constant(Op::maximum, f32, 2)},
          {"max(max(x, 2), 1)", nested(Op::maximum, 2, 1), with_constant(Op::maximum, f32, 2)},
          {"clamp, open below", clamp(-infinity, 1), with_constant(Op::minimum, f32, 1)},
          {"clamp, open above", clamp(-1, infinity), with_constant(Op::maximum, f32, -1)},
          {"clamp", clamp(-1, 1)},
          {"x & x", of_one(s32, [](Builder& b, Value x) { return b.binary(Op::bit_and, x, x); }), identity(s32)},
          {"x ^ x", of_one(s32, [](Builder& b, Value x) { return b.binary(Op::bit_xor, x, x); }),
           [](Builder& b) {
             b.parameter(s32, shape);
             return Values{b.filled(s32, shape, 0)};
           }},
          {"x | 0", with_constant(Op::bit_or, s32, 0), identity(s32)},
          {"x & ~0", with_constant(Op::bit_and, s32, -1), identity(s32)},
          {"x ^ ~0", with_constant(Op::bit_xor, s32, -1), one(Op::bit_not, s32)},
          {"c and true", with_constant(Op::bit_and, pred, 1), identity(pred)},
          {"c or not c",
           of_one(pred, [](Builder& b, Value c) { return b.binary(Op::bit_or, c, b.unary(Op::bit_not, c)); }),
           [](Builder& b) {
             b.parameter(pred, shape);
             return Values{b.filled(pred, shape, 1)};
           }},
          {"not not x", of_one(s32, [](Builder& b, Value x) { return b.unary(Op::bit_not, b.unary(Op::bit_not, x)); }),
           identity(s32)},
          {"x << 0", with_constant(Op::shift_left, s32, 0), identity(s32)},
      });
}

}  // namespace
}  // namespace stitch::graph
