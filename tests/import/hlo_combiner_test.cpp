#include "import/hlo/combiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/literal.h"

namespace stitch::import::hlo {
namespace {

using graph::Builder;
using graph::Comparison;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using testing::ElementsAre;
using testing::Optional;

/// A combiner of two scalars.
template <class Body>
Graph scalar_combiner(DType dtype, Body body) {
  Builder builder("combiner");
  const Value x = builder.parameter(dtype, {}), y = builder.parameter(dtype, {});
  Result<Graph> graph = builder.finish({body(builder, x, y)});
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return std::move(*graph);
}

TEST(HloCombiner, BinaryOperatorsInEitherOrder) {
  struct Row {
    Op op;
    DType dtype;
    ReduceKind kind;
  };
  const Row rows[] = {
      {Op::add, DType::f32, ReduceKind::sum},          {Op::multiply, DType::f16, ReduceKind::product},
      {Op::maximum, DType::f32, ReduceKind::max},      {Op::minimum, DType::s32, ReduceKind::min},
      {Op::bit_and, DType::u32, ReduceKind::bit_and},  {Op::bit_or, DType::pred, ReduceKind::bit_or},
      {Op::bit_xor, DType::s8, ReduceKind::bit_xor},   {Op::maximum, DType::pred, ReduceKind::bit_or},
      {Op::minimum, DType::pred, ReduceKind::bit_and},
  };
  for (const Row& row : rows) {
    const Graph straight =
        scalar_combiner(row.dtype, [&](Builder& b, Value x, Value y) { return b.binary(row.op, x, y); });
    const Graph swapped =
        scalar_combiner(row.dtype, [&](Builder& b, Value x, Value y) { return b.binary(row.op, y, x); });
    EXPECT_THAT(independent_kinds(straight), Optional(ElementsAre(row.kind))) << to_string(row.op);
    EXPECT_THAT(independent_kinds(swapped), Optional(ElementsAre(row.kind))) << to_string(row.op);
  }
}

TEST(HloCombiner, WiderArithmeticIsTheSame) {
  const Graph wide = scalar_combiner(DType::bf16, [](Builder& b, Value x, Value y) {
    return b.convert(b.binary(Op::add, b.convert(x, DType::f32), b.convert(y, DType::f32)), DType::bf16);
  });
  EXPECT_THAT(independent_kinds(wide), Optional(ElementsAre(ReduceKind::sum)));
  const Graph rounding = scalar_combiner(DType::f32, [](Builder& b, Value x, Value y) {
    return b.convert(b.convert(b.binary(Op::maximum, x, y), DType::bf16), DType::f32);
  });
  EXPECT_THAT(independent_kinds(rounding), Optional(ElementsAre(ReduceKind::max)));
  const Graph narrow = scalar_combiner(DType::f32, [](Builder& b, Value x, Value y) {
    return b.convert(b.binary(Op::add, b.convert(x, DType::bf16), b.convert(y, DType::bf16)), DType::f32);
  });
  EXPECT_EQ(independent_kinds(narrow), std::nullopt);
  // An integer does not come back from a narrower type as it was.
  const Graph wrapping = scalar_combiner(DType::s32, [](Builder& b, Value x, Value y) {
    return b.convert(b.convert(b.binary(Op::add, x, y), DType::s8), DType::s32);
  });
  EXPECT_EQ(independent_kinds(wrapping), std::nullopt);
}

TEST(HloCombiner, ReplaceTakesTheElement) {
  EXPECT_THAT(independent_kinds(scalar_combiner(DType::f32, [](Builder&, Value, Value y) { return y; })),
              Optional(ElementsAre(ReduceKind::replace)));
  EXPECT_EQ(independent_kinds(scalar_combiner(DType::f32, [](Builder&, Value x, Value) { return x; })), std::nullopt);
}

TEST(HloCombiner, WhatIsNoPlainCombinationIsRefused) {
  using Body = Value (*)(Builder&, Value, Value);
  const Body bodies[] = {
      [](Builder& b, Value x, Value y) { return b.binary(Op::subtract, x, y); },
      [](Builder& b, Value x, Value) { return b.binary(Op::add, x, x); },
      [](Builder& b, Value x, Value y) { return b.binary(Op::add, x, b.unary(Op::negate, y)); },
      [](Builder& b, Value x, Value y) { return b.binary(Op::add, b.binary(Op::add, x, y), b.scalar(DType::f32, 1)); },
  };
  for (const Body body : bodies) EXPECT_EQ(independent_kinds(scalar_combiner(DType::f32, body)), std::nullopt);
}

TEST(HloCombiner, SeveralAtOnceMustNotMix) {
  const auto pair = [](bool mixed) {
    Builder b("pair");
    const Value a0 = b.parameter(DType::f32, {}), a1 = b.parameter(DType::f32, {});
    const Value x0 = b.parameter(DType::f32, {}), x1 = b.parameter(DType::f32, {});
    return *b.finish({b.binary(Op::add, x0, a0), b.binary(Op::maximum, a1, mixed ? x0 : x1)});
  };
  EXPECT_THAT(independent_kinds(pair(false)), Optional(ElementsAre(ReduceKind::sum, ReduceKind::max)));
  EXPECT_EQ(independent_kinds(pair(true)), std::nullopt);
}

enum class NaN { kept, ignored, loses };

/// JAX's way: the accumulator wins when it compares so, or when it is NaN; positions break ties.
Graph pair_combiner(DType dtype, Comparison direction, Comparison tie, NaN nan, bool swap_positions = false) {
  Builder b("arg");
  const Value x = b.parameter(dtype, {}), i = b.parameter(DType::s32, {});
  const Value y = b.parameter(dtype, {}), j = b.parameter(DType::s32, {});
  Value first = b.compare(direction, x, y);
  if (nan == NaN::kept) first = b.binary(Op::bit_or, first, b.compare(Comparison::ne, x, x));
  if (nan == NaN::loses) first = b.binary(Op::bit_or, first, b.compare(Comparison::ne, y, y));
  const Value tied = b.binary(Op::bit_and, b.compare(Comparison::eq, x, y), b.compare(tie, i, j));
  const Value position = b.binary(Op::bit_or, first, tied);
  const Value winner = swap_positions ? b.select(position, j, i) : b.select(position, i, j);
  return *b.finish({b.select(first, x, y), winner});
}

TEST(HloCombiner, ArgExtremes) {
  struct Row {
    Comparison direction, tie;
    DType dtype;
    NaN nan;
    ReduceKind kind;
    bool last;
  };
  const Row rows[] = {
      {Comparison::gt, Comparison::lt, DType::f32, NaN::kept, ReduceKind::max, false},
      {Comparison::lt, Comparison::lt, DType::f32, NaN::kept, ReduceKind::min, false},
      {Comparison::gt, Comparison::gt, DType::bf16, NaN::kept, ReduceKind::max, true},
      {Comparison::lt, Comparison::gt, DType::s32, NaN::ignored, ReduceKind::min, true},
      {Comparison::gt, Comparison::lt, DType::f32, NaN::ignored, ReduceKind::max, false},
      {Comparison::gt, Comparison::lt, DType::u8, NaN::ignored, ReduceKind::max, false},
      // Ties go to whichever comes first in the tree of the reduction: the first position is as good as any.
      {Comparison::ge, Comparison::lt, DType::f32, NaN::kept, ReduceKind::max, false},
  };
  for (const Row& row : rows) {
    const auto found = arg_combiner(pair_combiner(row.dtype, row.direction, row.tie, row.nan));
    ASSERT_TRUE(found.has_value()) << to_string(row.direction) << " " << to_string(row.dtype);
    EXPECT_EQ(found->kind, row.kind);
    EXPECT_EQ(found->last, row.last);
  }
}

TEST(HloCombiner, ArgExtremesAsTensorFlowWritesThem) {
  // value: select(x >= y, x, y); position: x == y ? min(i, j) : (x >= y ? i : j).
  Builder b("arg");
  const Value x = b.parameter(DType::f32, {}), i = b.parameter(DType::s32, {});
  const Value y = b.parameter(DType::f32, {}), j = b.parameter(DType::s32, {});
  const Value ge = b.compare(Comparison::ge, x, y);
  const Value position = b.select(b.compare(Comparison::eq, x, y), b.binary(Op::minimum, i, j), b.select(ge, i, j));
  const auto found = arg_combiner(*b.finish({b.select(ge, x, y), position}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->kind, ReduceKind::max);
  EXPECT_FALSE(found->last);
}

TEST(HloCombiner, OtherPairsAreNoArgExtremes) {
  EXPECT_FALSE(arg_combiner(pair_combiner(DType::f32, Comparison::gt, Comparison::lt, NaN::kept, true)));
  EXPECT_FALSE(arg_combiner(pair_combiner(DType::f32, Comparison::gt, Comparison::lt, NaN::loses)));
  EXPECT_FALSE(arg_combiner(pair_combiner(DType::bf16, Comparison::lt, Comparison::lt, NaN::loses)));
  // Arithmetic could do anything at values that were not tried.
  Builder b("arg");
  const Value x = b.parameter(DType::s32, {}), i = b.parameter(DType::s32, {});
  const Value y = b.parameter(DType::s32, {}), j = b.parameter(DType::s32, {});
  const Value first = b.compare(Comparison::gt, x, b.binary(Op::add, y, b.scalar(DType::s32, 0)));
  EXPECT_FALSE(arg_combiner(*b.finish({b.select(first, x, y), b.select(first, i, j)})));
}

TEST(HloCombiner, Selections) {
  const auto selection = [](Comparison direction, bool swapped) {
    Builder b("select");
    const Value selected = b.parameter(DType::f32, {}), candidate = b.parameter(DType::f32, {});
    return *b.finish({swapped ? b.compare(direction, candidate, selected) : b.compare(direction, selected, candidate)});
  };
  EXPECT_EQ(selection_kind(selection(Comparison::ge, false)), ReduceKind::max);
  EXPECT_EQ(selection_kind(selection(Comparison::le, true)), ReduceKind::max);
  EXPECT_EQ(selection_kind(selection(Comparison::le, false)), ReduceKind::min);
  EXPECT_EQ(selection_kind(selection(Comparison::gt, false)), std::nullopt);
  EXPECT_EQ(selection_kind(selection(Comparison::eq, false)), std::nullopt);
}

}  // namespace
}  // namespace stitch::import::hlo
