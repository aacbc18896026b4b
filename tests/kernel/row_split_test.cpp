#include "kernel/loop/row_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/recurrent_graphs.h"

namespace stitch::kernel::test {
namespace {

using Kind = CarriedValue::Kind;

std::string kinds(const RowSplit& split) {
  std::string text;
  for (const CarriedValue& carried : split.carried) {
    if (carried.kind == Kind::invariant) text += "-";
    if (carried.kind == Kind::state) text += carried.row_dimension < 0 ? "c" : std::to_string(carried.row_dimension);
    if (carried.kind == Kind::stacked)
      text += "[" + std::to_string(carried.turn_dimension) + std::to_string(carried.row_dimension) + "]";
  }
  return text;
}

std::string split_of(const Graph& graph) {
  const auto loop = recurrent_loop(graph);
  if (!loop) return "no loop by itself";
  const auto split = split_rows(graph, *loop);
  return split ? fmt::format("{} turns, {} rows: {}", split->turns, split->rows, kinds(*split)) : split.error().message;
}

TEST(RowSplit, FindsWhatEachCarriedValueIs) {
  // The counter has no rows; the state's and the sequences' are their first, behind that of the turns.
  EXPECT_EQ(split_of(gru({})), "5 turns, 12 rows: c0--[01]");
  EXPECT_EQ(split_of(gru({.reversed = true})), "5 turns, 12 rows: c0--[01]");
  EXPECT_EQ(split_of(lstm({})), "5 turns, 12 rows: c00----[01]");
  EXPECT_EQ(split_of(gru_reset_before({})), "5 turns, 12 rows: c0---");
  EXPECT_EQ(split_of(cell_backward({})), "5 turns, 12 rows: c0----[01]");
}

/// A loop that hands on what `next` makes of a state [12,8].
Graph handing_on(const std::function<Value(LoopBuilder&, Value)>& next) {
  LoopBuilder l({});
  const Value h = l.carry(l.outside.parameter(DType::f32, {12, 8}));
  l.hand_on(h, next(l, h));
  l.want(h);
  return l.finish();
}

TEST(RowSplit, ColumnsAreRowsWhereRowsAreMixed) {
  EXPECT_EQ(split_of(handing_on([](LoopBuilder& l, Value h) {
              const Value weights = l.given({12, 12});
              return l.inside.dot(weights, h, {{}, {}, {1}, {0}, DType::f32});
            })),
            "5 turns, 8 rows: c1-");
}

TEST(RowSplit, RowsAreManyWhereSeveralDimensionsWork) {
  const auto decaying = [](const Dims& dims) {
    LoopBuilder l({});
    const Value h = l.carry(l.outside.parameter(DType::f32, dims));
    l.hand_on(h, l.inside.unary(Op::tanh, h));
    l.want(h);
    return l.finish();
  };
  EXPECT_EQ(split_of(decaying({8, 768})), "5 turns, 768 rows: c1");
  EXPECT_EQ(split_of(decaying({8, 16, 12})), "5 turns, 16 rows: c1");
  EXPECT_EQ(split_of(decaying({128, 768})), "5 turns, 128 rows: c0") << "enough, and what is behind them stays whole";
}

TEST(RowSplit, SaysWhatKeepsRowsTogether) {
  EXPECT_THAT(split_of(handing_on([](LoopBuilder& l, Value h) {
                const Value all = l.inside.reduce(ReduceKind::sum, h, {0, 1});
                return l.inside.binary(Op::add, h, l.inside.broadcast(all, {12, 8}, {}));
              })),
              testing::HasSubstr("is needed row by row and as a whole"));
  EXPECT_THAT(split_of(handing_on([](LoopBuilder& l, Value h) {
                const Value other = l.inside.dot(h, h, {{}, {}, {1}, {1}, DType::f32});
                return l.dot(other, h);
              })),
              testing::HasSubstr("as a whole"));
  EXPECT_THAT(split_of(handing_on([](LoopBuilder& l, Value h) {
                return l.inside.reverse(h, {0, 1});
              })),
              testing::HasSubstr("mixes rows"));
}

TEST(RowSplit, AStackIsWrittenWholeAndNotRead) {
  // Every second slice: what the others hold afterwards is what the loop was given.
  const auto stacking = [](bool read, std::int64_t factor) {
    LoopBuilder l({});
    Builder& b = l.inside;
    const Value h = l.carry(l.outside.parameter(DType::f32, {12, 8}));
    const Value stack = l.carry(l.outside.parameter(DType::f32, {5, 12, 8}));
    const Value counter = l.carry(l.outside.scalar(DType::s32, 0));
    l.hand_on(counter, b.binary(Op::add, counter, l.scalar(factor)));
    const Value zero = l.scalar(0);
    const Value next = b.unary(Op::tanh, h);
    const Value more = read ? b.binary(Op::add, next, b.reduce(ReduceKind::sum, stack, {0})) : next;
    l.hand_on(h, more);
    l.hand_on(stack, b.add(Op::dynamic_update_slice, {stack, b.reshape(next, {1, 12, 8}), counter, zero, zero},
                           graph::UpdateAttributes{}));
    l.want(stack);
    return l.finish();
  };
  EXPECT_EQ(split_of(stacking(false, 1)), "5 turns, 12 rows: c0[01]c");
  // Then it is a state like any other: of rows, and kept by the blocks.
  EXPECT_EQ(split_of(stacking(true, 1)), "5 turns, 12 rows: c01c");
  EXPECT_EQ(split_of(stacking(false, 2)), "5 turns, 12 rows: c01c");
}

TEST(RowSplit, IndicesAreLookedAtOnceAndMustFitTheirType) {
  // c + c + … + c doubled forty times over is no walk of 2^40 steps; a counter of 8 bits does not reach turn 200.
  const auto stacking = [](DType index, int doublings, std::int64_t turns) {
    LoopBuilder l({.turns = turns});
    Builder& b = l.inside;
    const Value h = l.carry(l.outside.parameter(DType::f32, {12, 8}));
    const Value stack = l.carry(l.outside.filled(DType::f32, {turns, 12, 8}, 0));
    Value at = l.carry(l.outside.scalar(index, 0));
    l.hand_on(at, b.binary(Op::add, at, b.scalar(index, 1)));
    for (int i = 0; i < doublings; ++i) at = b.binary(Op::add, at, at);
    const Value zero = b.scalar(index, 0), next = b.unary(Op::tanh, h);
    l.hand_on(h, next);
    l.hand_on(stack, b.add(Op::dynamic_update_slice, {stack, b.reshape(next, {1, 12, 8}), at, zero, zero},
                           graph::UpdateAttributes{}));
    l.want(stack);
    return l.finish();
  };
  EXPECT_EQ(split_of(stacking(DType::s32, 0, 200)), "200 turns, 12 rows: c0[01]c");
  EXPECT_EQ(split_of(stacking(DType::s8, 0, 100)), "100 turns, 12 rows: c0[01]c");
  EXPECT_EQ(split_of(stacking(DType::s8, 0, 200)), "200 turns, 12 rows: c01c");
  EXPECT_EQ(split_of(stacking(DType::s32, 40, 200)), "200 turns, 12 rows: c01c");
}

TEST(RowSplit, HasLimits) {
  EXPECT_THAT(split_of(gru({.turns = 1 << 20})), testing::HasSubstr("runs 1048576 times"));
  EXPECT_THAT(split_of(handing_on([](LoopBuilder& l, Value h) {
                for (int i = 0; i < 1100; ++i) h = l.inside.unary(Op::tanh, h);
                return h;
              })),
              testing::HasSubstr("at most 1024"));
  Graph twice = gru({});
  twice.add_result(twice.results()[0]);
  EXPECT_THAT(split_of(twice), testing::HasSubstr("asked for twice"));
}

TEST(RowSplit, ALoopWithSomethingBesideItIsNone) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4});
  EXPECT_EQ(split_of(finished(b, {b.unary(Op::exp, x)})), "no loop by itself");
}

TEST(RowSplit, FindsTheDimensionBelow) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4, 6, 5});
  const Value turned = b.transpose(x, {2, 0, 1});
  const Value flat = b.reshape(x, {24, 5});
  const Value part = b.slice(x, {0, 1, 0}, {4, 3, 5});
  const Value sums = b.reduce(ReduceKind::sum, x, {1});
  const Value wide = b.broadcast(sums, {4, 3, 5}, {0, 2});
  const Value dot = b.dot(x, x, {{0}, {0}, {2}, {2}, DType::f32});
  const Graph graph = finished(b, {turned, flat, part, wide, dot});
  EXPECT_EQ(operand_dimension(graph, turned.node, 0, 0), 2);
  EXPECT_EQ(operand_dimension(graph, flat.node, 0, 0), std::nullopt);
  EXPECT_EQ(operand_dimension(graph, flat.node, 0, 1), 2);
  EXPECT_EQ(operand_dimension(graph, part.node, 0, 0), 0);
  EXPECT_EQ(operand_dimension(graph, part.node, 0, 1), std::nullopt);
  EXPECT_EQ(operand_dimension(graph, sums.node, 0, 1), 2);
  EXPECT_EQ(operand_dimension(graph, wide.node, 0, 1), -1);
  EXPECT_EQ(operand_dimension(graph, wide.node, 0, 2), 1);
  EXPECT_EQ(operand_dimension(graph, dot.node, 0, 0), 0);
  EXPECT_EQ(operand_dimension(graph, dot.node, 1, 0), 0);
  EXPECT_EQ(operand_dimension(graph, dot.node, 0, 1), 1);
  EXPECT_EQ(operand_dimension(graph, dot.node, 1, 1), -1);
  EXPECT_EQ(operand_dimension(graph, dot.node, 1, 2), 1);
}

}  // namespace
}  // namespace stitch::kernel::test
