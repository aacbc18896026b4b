// Which operands of products are computed while they are loaded, and what of.
#include "kernel/contraction/computed_operand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::Op;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t computed_rows = 64, computed_depth = 128, computed_columns = 48;
const graph::Dims operand_dims = {computed_rows, computed_depth};

Value times(Builder& b, Value x, DType result = DType::f32) {
  const Value w = b.parameter(b.dtype(x), {computed_depth, computed_columns});
  return b.dot(x, w, {{}, {}, {1}, {0}, result});
}
/// (x − mean) · rstd · γ + β, in f32 and rounded, of statistics that are given.
Value normed(Builder& b, Value x) {
  const auto of_row = [&] { return b.broadcast(b.parameter(DType::f32, {computed_rows}), operand_dims, {0}); };
  const auto of_column = [&] { return b.broadcast(b.parameter(DType::f32, {computed_depth}), operand_dims, {1}); };
  const Value centred = b.binary(Op::subtract, b.convert(x, DType::f32), of_row());
  const Value scaled = b.binary(Op::multiply, b.binary(Op::multiply, centred, of_row()), of_column());
  return b.convert(b.binary(Op::add, scaled, of_column()), DType::bf16);
}

TEST(ComputedOperands, AreProductsOfWhatIsNowhere) {
  Builder b;
  const Graph graph = finished(b, {times(b, normed(b, b.parameter(DType::bf16, operand_dims)))});
  const auto problem = derive_computed(graph);
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(to_string(*problem), "bf16 1×[64,128]·[128,48] (left computed of bf16, f32, f32, f32, f32) → f32");
  EXPECT_EQ(problem->left.parameter, 6) << "behind the graph's own";
  EXPECT_EQ(problem->left.dtype, DType::bf16);
  EXPECT_EQ(problem->graph->parameters().size(), 7U);
  EXPECT_EQ(problem->whole()->parameters().size(), 6U);
  ASSERT_EQ(problem->computed.size(), 1U);
  const ComputedOperand& left = problem->computed[0];
  EXPECT_THAT(left.reads, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(left.tensor_bytes, 2) << "of x alone";
  EXPECT_EQ(left.each, (ComputedOperand::Loads{3, 10, 1})) << "x, γ and β";
  EXPECT_EQ(left.together, (ComputedOperand::Loads{2, 8, 0})) << "both statistics of a row";
  EXPECT_EQ(left.small_bytes, 2 * 4 * computed_rows + 2 * 4 * computed_depth);
  EXPECT_EQ(held_registers(left, 8), 22);
}

/// A value of many rows and features, such as a group's scale, comes from caches as those of one row do.
TEST(ComputedOperands, ReadFewValuesOfGroupsFromCaches) {
  Builder b;
  const graph::Dims groups = {computed_rows / 8, 8, 4, computed_depth / 4};
  const Value scale = b.broadcast(b.parameter(DType::f32, {computed_rows / 8, 4}), groups, {0, 2});
  const Value x = b.binary(Op::multiply, b.parameter(DType::f32, operand_dims), b.reshape(scale, operand_dims));
  const auto problem = derive_computed(finished(b, {times(b, x)}));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->computed[0].tensor_bytes, 4);
  EXPECT_EQ(problem->computed[0].small_bytes, 4 * computed_rows / 8 * 4);
}

TEST(ComputedOperands, AreOfEitherSideOrBoth) {
  Builder b;
  const Value x = b.convert(b.parameter(DType::f32, operand_dims), DType::bf16);
  const Value w = b.convert(b.parameter(DType::f32, {computed_columns, computed_depth}), DType::bf16);
  const Graph graph = finished(b, {b.dot(x, b.transpose(w, {1, 0}), {{}, {}, {1}, {0}, DType::bf16})});
  const auto problem = derive_computed(graph);
  ASSERT_TRUE(problem) << problem.error().message;
  ASSERT_EQ(problem->computed.size(), 2U);
  EXPECT_EQ(computed_side(*problem, false)->tensor_bytes, 4);
  EXPECT_EQ(contiguity(problem->right), Contiguity::contracted) << "where the conversion's result would lie";
  const ContractionProblem other = turned(*problem);
  EXPECT_EQ(computed_side(other, true)->parameter, computed_side(*problem, false)->parameter);
}

TEST(ComputedOperands, HaveNamesOfTheirOwn) {
  const auto hash = [](Op op) {
    Builder b;
    return contraction_hash(
        *derive_computed(finished(b, {times(b, b.unary(op, b.parameter(DType::f16, operand_dims)))})));
  };
  EXPECT_EQ(hash(Op::tanh), hash(Op::tanh));
  EXPECT_NE(hash(Op::tanh), hash(Op::exp));
  Builder b;
  const auto problem =
      derive_computed(finished(b, {times(b, b.unary(Op::tanh, b.parameter(DType::f16, operand_dims)))}));
  const ContractionProblem loaded = without_computing(*problem);
  EXPECT_NE(contraction_hash(loaded), contraction_hash(*problem));
  EXPECT_EQ(contraction_hash(loaded), contraction_hash(*derive_contraction(*loaded.whole())));
}

TEST(ComputedOperands, WhatIsNoneIsNamed) {
  const auto refusal = [](Builder& b, std::vector<Value> results) {
    const auto problem = derive_computed(finished(b, std::move(results)));
    return problem ? "nothing" : problem.error().message;
  };
  Builder loaded, reduced, chained, windows, kept;
  EXPECT_THAT(refusal(loaded, {times(loaded, loaded.parameter(DType::f32, operand_dims))}),
              HasSubstr("no operand is computed"));
  const Value x = reduced.parameter(DType::f32, operand_dims);
  const Value sums = reduced.broadcast(reduced.reduce(ReduceKind::sum, x, {1}), operand_dims, {0});
  EXPECT_THAT(refusal(reduced, {times(reduced, reduced.binary(Op::multiply, x, sums))}),
              HasSubstr("an operand computed by reduce"));
  const Value square = chained.parameter(DType::f32, {computed_depth, computed_depth});
  const Value product =
      chained.dot(chained.parameter(DType::f32, operand_dims), square, {{}, {}, {1}, {0}, DType::f32});
  EXPECT_THAT(refusal(chained, {times(chained, chained.unary(Op::tanh, product))}),
              HasSubstr("an operand computed by dot"));
  const Value shown = kept.unary(Op::tanh, kept.parameter(DType::f32, operand_dims));
  EXPECT_THAT(refusal(kept, {times(kept, shown), shown}), HasSubstr("a result that is an operand"));
}

/// Registers hold a tile on its way, and no copy engine knows how to compute one.
TEST(ComputedOperands, TakeRegistersAndThreads) {
  Builder b;
  const auto problem = derive_computed(finished(b, {times(b, normed(b, b.parameter(DType::bf16, operand_dims)))}));
  const DeviceSpec device = *find_device("h100");
  ContractionSchedule s = *default_schedule(*problem, device);
  const ContractionShape shape = shape_of(*problem, s);
  const std::int64_t runs = s.block_rows * s.block_depth / 8 / shape.threads;
  EXPECT_EQ(shape.held, runs * 22);
  EXPECT_EQ(shape.registers - shape.held, shape_of(without_computing(*problem), s).registers);
  s.instruction = *warpgroup_instruction_for(*problem, device);
  s.block_rows = s.block_columns = s.block_depth = 64;
  s.warp_rows = 16;
  s.warp_columns = 64;
  s.stages = 3;
  s.fragment_stages = 1;
  s.resident = 1;
  s.tensor_copies = true;
  fit_accesses(*problem, s);
  const Status legal = check_legality(*problem, s, device);
  ASSERT_FALSE(legal);
  EXPECT_THAT(legal.error().message, HasSubstr("computed: "));
}

}  // namespace
}  // namespace stitch::kernel::test
