// Which products are merged, and what stands in the way.
#include "kernel/contraction/merged_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/strips.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::Dims;
using testing::ElementsAre;
using testing::HasSubstr;

/// x: [64, 96] · w: [96, columns], one for each.
struct Products {
  Builder b;
  Value x = b.parameter(DType::f16, {64, 96});
  std::vector<Value> results;

  Value weights(std::int64_t columns, DType dtype = DType::f16) { return b.parameter(dtype, {96, columns}); }
  void add(Value result) { results.push_back(result); }
  Value dot(Value left, Value right, std::int64_t of_left = 1, std::int64_t of_right = 0, DType dtype = DType::f32) {
    return b.dot(left, right, {{}, {}, {of_left}, {of_right}, dtype});
  }
  Graph graph() { return finished(b, results); }
  Result<ContractionProblem> merged() { return derive_merged(graph()); }
  std::string refusal() { return merged().error().message; }
};

TEST(MergedContractions, ShareWhatTheyReadOnce) {
  Products p;
  for (const std::int64_t columns : {128, 48, 64}) p.add(p.dot(p.x, p.weights(columns)));
  const auto merged = p.merged();
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(merged->columns, 240);
  EXPECT_EQ(merged->rows, 64);
  EXPECT_EQ(most_columns(*merged), 128);
  ASSERT_EQ(merged->members.size(), 3U);
  EXPECT_EQ(merged->members[1].right.parameter, 2);
  EXPECT_EQ(merged->members[1].result.rows, (ContractionDigits{{64, 48}}));
  EXPECT_EQ(merged->products(), 64.0 * 240 * 96);
  EXPECT_EQ(merged->least_bytes(), 2 * (64 * 96 + 240 * 96) + 4 * 64 * 240);
  EXPECT_FALSE(merged->has_epilogue());
  ContractionSchedule s = *default_schedule(*merged, *find_device("h100"));
  s.block_columns = 64;
  EXPECT_THAT(first_tiles(*merged, s), ElementsAre(0, 2, 3));
  EXPECT_EQ(shape_of(*merged, s).column_tiles, 4);
}

TEST(MergedContractions, AreTurnedWhereTheyShareTheRightOperand) {
  Products p;
  const Value first = p.weights(32), second = p.weights(128);
  p.add(p.dot(first, p.x, 0, 1));
  p.add(p.dot(p.x, second));
  const auto merged = p.merged();
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(merged->left.parameter, 0);
  EXPECT_EQ(merged->rows, 64);
  EXPECT_EQ(merged->columns, 160);
  EXPECT_EQ(merged->members[0].result.rows, (ContractionDigits{{64, 1}})) << "its columns are rows now";
}

TEST(MergedContractions, HaveANameOfTheirOwn) {
  const auto named = [](std::int64_t columns, DType result) {
    Products p;
    p.add(p.dot(p.x, p.weights(columns)));
    p.add(p.dot(p.x, p.weights(64), 1, 0, result));
    return contraction_hash(*p.merged());
  };
  EXPECT_EQ(named(32, DType::f32), named(32, DType::f32));
  EXPECT_NE(named(32, DType::f32), named(48, DType::f32));
  EXPECT_NE(named(32, DType::f32), named(32, DType::f16));
}

TEST(MergedContractions, WhatCannotBeMergedIsNamed) {
  Products one;
  one.add(one.dot(one.x, one.weights(32)));
  EXPECT_THAT(one.refusal(), HasSubstr("1 products in one kernel"));
  Products many;
  for (std::size_t i = 0; i <= most_members; ++i) many.add(many.dot(many.x, many.weights(32)));
  EXPECT_THAT(many.refusal(), HasSubstr("9 products in one kernel"));
  Products strangers;
  strangers.add(strangers.dot(strangers.x, strangers.weights(32)));
  strangers.add(strangers.dot(strangers.b.parameter(DType::f16, {64, 96}), strangers.weights(32)));
  EXPECT_THAT(strangers.refusal(), HasSubstr("result 1: another operand"));
  Products turned;
  turned.add(turned.dot(turned.x, turned.weights(32)));
  turned.add(turned.dot(turned.x, turned.b.parameter(DType::f16, {32, 96}), 1, 1));
  EXPECT_THAT(turned.refusal(), HasSubstr("result 1: an operand that lies otherwise"));
  Products column;
  column.add(column.dot(column.x, column.weights(32)));
  column.add(column.dot(column.x, column.weights(1)));
  EXPECT_THAT(column.refusal(), HasSubstr("result 1: an operand that lies otherwise"));
  Products typed;
  typed.add(typed.dot(typed.x, typed.weights(32)));
  typed.add(typed.dot(typed.x, typed.weights(32, DType::f32)));
  EXPECT_THAT(typed.refusal(), HasSubstr("result 1: an operand that lies otherwise"));
  Products wide;
  wide.add(wide.dot(wide.x, wide.weights(32)));
  wide.add(wide.dot(wide.x, wide.weights(32), 1, 0, DType::f64));
  EXPECT_THAT(wide.refusal(), HasSubstr("result 1: another kind of product"));
  Products transposed;
  transposed.add(transposed.dot(transposed.x, transposed.weights(32)));
  transposed.add(transposed.dot(transposed.x, transposed.b.parameter(DType::f16, {64, 32}), 0, 0));
  EXPECT_THAT(transposed.refusal(), HasSubstr("result 1: another operand")) << "the same parameter, read otherwise";
  Products chained;
  const Value first = chained.dot(chained.x, chained.weights(32));
  chained.add(first);
  chained.add(chained.b.add(graph::Op::multiply, {first, chained.dot(chained.x, chained.weights(32))}));
  EXPECT_THAT(chained.refusal(), HasSubstr("result 1: several dots"));
  Products twice;
  twice.add(twice.dot(twice.x, twice.weights(32)));
  twice.add(twice.results[0]);
  EXPECT_THAT(twice.refusal(), HasSubstr("result 1 is another one again"));
  Products idle;
  idle.add(idle.dot(idle.x, idle.weights(32)));
  idle.add(idle.b.unary(graph::Op::exp, idle.results[0]));
  EXPECT_THAT(idle.refusal(), HasSubstr("1 products of 2 results"));
}

/// Copies are as wide as every member allows, stores as wide as each of them does.
TEST(MergedContractions, AccessesFitEveryMember) {
  Products p;
  p.add(p.dot(p.x, p.weights(64)));
  p.add(p.dot(p.x, p.weights(36)));
  const ContractionProblem merged = *p.merged();
  const DeviceSpec device = *find_device("h100");
  ContractionSchedule s = *default_schedule(merged, device);
  EXPECT_EQ(s.left_copy, 16);
  EXPECT_EQ(s.right_copy, 8);
  EXPECT_EQ(s.store, 4);
  EXPECT_EQ(store_of(merged.members[0], s), 4);
  EXPECT_EQ(store_of(merged.members[1], s), 4);
  s.right_copy = 16;
  EXPECT_THAT(check_legality(merged, s, device).error().message, HasSubstr("copies: copies of 16 bytes"));
  Products odd;
  odd.add(odd.dot(odd.x, odd.weights(64)));
  odd.add(odd.dot(odd.x, odd.weights(33)));
  const ContractionProblem unaligned = *odd.merged();
  s = *default_schedule(unaligned, device);
  EXPECT_EQ(s.right_copy, 2);
  EXPECT_EQ(store_of(unaligned.members[0], s), 4);
  EXPECT_EQ(store_of(unaligned.members[1], s), 1);
}

/// The copy engine needs strides of 16 bytes of every member.
TEST(MergedContractions, TensorCopiesAreOfAllMembersOrNone) {
  const DeviceSpec device = *find_device("h100");
  const auto legality = [&](std::int64_t columns) {
    Products p;
    p.add(p.dot(p.x, p.weights(64)));
    p.add(p.dot(p.x, p.weights(columns)));
    const ContractionProblem merged = *p.merged();
    ContractionSchedule s;
    s.instruction = *warpgroup_instruction_for(merged, device);
    s.block_rows = s.block_columns = 64, s.block_depth = 32;
    s.warp_rows = 16, s.warp_columns = 64, s.thread_rows = s.thread_columns = 0;
    s.tensor_copies = true;
    s.resident = 1;
    fit_accesses(merged, s);
    const Status legal = check_legality(merged, s, device);
    return legal ? std::string() : legal.error().message;
  };
  EXPECT_EQ(legality(128), "");
  EXPECT_THAT(legality(36), HasSubstr("tensor-copies: right: a stride of 72 bytes"));
}

}  // namespace
}  // namespace stitch::kernel::test
