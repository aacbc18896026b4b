#include "kernel/attention/updated_operand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernel/attention/attention_schedule.h"
#include "kernel/attention/visible_keys.h"
#include "tests/kernel/attention_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using test::attention_graph;
using test::AttentionCase;
using test::Mask;
using test::with_updates;
using testing::HasSubstr;

/// A step of decoding: the new keys have the cache's layout, but one key.
TEST(UpdatedOperand, IsFoundWhereItLies) {
  const auto problem =
      derive_attention(attention_graph(with_updates({"", {2, 8}, 1, 24, 8, 12, DType::bf16, Mask::none, 4}, 3)));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(to_string(*problem), "bf16 4×[4,8]·[24,8], softmax, ·[24,12] → bf16, with updated keys and values");
  ASSERT_TRUE(problem->updated_keys && problem->updated_values);
  const UpdatedOperand &keys = *problem->updated_keys, &values = *problem->updated_values;
  EXPECT_EQ(keys.keys, 3);
  EXPECT_EQ(keys.result, 1);
  EXPECT_EQ(values.result, 2);
  EXPECT_EQ(keys.start, values.start);
  EXPECT_EQ(problem->scores.right.batch, (ContractionDigits{{4, 24 * 8}}));
  EXPECT_EQ(keys.update.batch, (ContractionDigits{{4, 3 * 8}}));
  EXPECT_EQ(keys.update.free, (ContractionDigits{{3, 8}}));
  EXPECT_EQ(keys.update.contracted, (ContractionDigits{{8, 1}}));
  EXPECT_EQ(values.update.batch, (ContractionDigits{{4, 3 * 12}}));
  EXPECT_EQ(values.update.free, (ContractionDigits{{12, 1}}));
  EXPECT_EQ(values.update.contracted, (ContractionDigits{{3, 12}}));
  EXPECT_EQ(problem->stored_operands(), 4 * 24 * (8 + 12));
  EXPECT_EQ(problem->least_bytes(), 2 * (16 * 8 + 16 * 12 + (2 * 4 * 24 + 4 * 3) * (8 + 12)) + 4)
      << "caches read and written, what is new, and where it goes";
}

/// [batch, keys, heads, depth]: a key's heads lie side by side.
TEST(UpdatedOperand, MayHaveHeadsInside) {
  AttentionCase inside = with_updates({"", {2, 4}, 3, 24, 8, 8, DType::f16}, 2);
  inside.heads_inside = true;
  const auto problem = derive_attention(attention_graph(inside));
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->updated_keys->update.batch, (ContractionDigits{{2, 2 * 32}, {4, 8}}));
  EXPECT_EQ(problem->updated_keys->update.free, (ContractionDigits{{2, 32}}));
}

TEST(UpdatedOperand, IsPartOfTheHash) {
  std::set<std::string> hashes;
  const AttentionCase plain{"", {2}, 4, 24, 8, 8, DType::f16};
  for (const AttentionCase& each :
       {plain, with_updates(plain, 1), with_updates(plain, 2), with_updates(plain, 1, false),
        with_updates(plain, 1, true, 3), with_updates(plain, 1, true, 4)})
    hashes.insert(attention_hash(*derive_attention(attention_graph(each))).hex());
  EXPECT_EQ(hashes.size(), 6U);
}

TEST(UpdatedOperand, WhatIsStoredIsWalked) {
  const AttentionCase causal{"", {2}, 64, 64, 16, 16, DType::f16, Mask::causal};
  AttentionSchedule schedule;
  schedule.block_rows = schedule.block_keys = 16;
  const auto walk = [&](const AttentionCase& each) {
    return key_walk(*derive_attention(attention_graph(each)), schedule);
  };
  EXPECT_TRUE(walk(causal).above);
  EXPECT_TRUE(walk(with_updates(causal, 4, false)).above);
  EXPECT_FALSE(walk(with_updates(causal, 4)).above);
}

TEST(UpdatedOperand, CopiesAndInstructionsHaveRules) {
  const DeviceSpec h100 = *find_device("h100");
  const AttentionCase plain{"", {2}, 64, 64, 64, 64, DType::f16};
  const auto problem = *derive_attention(attention_graph(with_updates(plain, 1)));
  EXPECT_TRUE(warpgroup_instruction_for(*derive_attention(attention_graph(plain)), h100));
  EXPECT_FALSE(warpgroup_instruction_for(problem, h100));
  AttentionSchedule schedule = *default_schedule(problem, h100);
  EXPECT_EQ(schedule.key_copy, 16);
  auto narrow = problem;
  narrow.updated_keys->update.batch = {{2, 63}};
  EXPECT_THAT(check_legality(narrow, schedule, h100).error().message,
              HasSubstr("copies of 16 bytes of keys or values that are updated by 2"));
  fit_accesses(narrow, schedule);
  EXPECT_EQ(schedule.key_copy, 2);
  EXPECT_TRUE(check_legality(narrow, schedule, h100));
  schedule.instruction = ContractionInstruction::wgmma_m64k16;
  schedule.block_rows = 64;
  schedule.stages = 2;
  schedule.block_keys = 32;
  EXPECT_THAT(check_legality(problem, schedule, h100).error().message, HasSubstr("updated keys or values by wgmma"));
}

/// An attention of [2,16,8] whose keys are `keys` of a cache.
std::string refused(const graph::Dims& cache, const graph::Dims& update, bool computed = false,
                    std::optional<std::int64_t> slice = {}) {
  graph::Builder b;
  const graph::Value old = b.parameter(DType::f32, cache), fresh = b.parameter(DType::f32, update);
  graph::Value place = b.parameter(DType::s32, {});
  if (computed) place = b.binary(graph::Op::add, place, place);
  graph::Value keys =
      b.add(graph::Op::dynamic_update_slice, {old, fresh, place, place, place}, graph::UpdateAttributes{});
  if (slice) keys = b.slice(keys, {0, 0, 0}, {2, *slice, 8}, {1, 1, 1});
  const graph::Value queries = b.parameter(DType::f32, {2, 16, 8});
  const graph::Value scores = b.dot(queries, keys, {{0}, {0}, {2}, {2}, DType::f32});
  const graph::Dims dims = b.dims(scores);
  const graph::Value greatest = b.broadcast(b.reduce(graph::ReduceKind::max, scores, {2}), dims, {0, 1});
  const graph::Value e = b.unary(graph::Op::exp, b.binary(graph::Op::subtract, scores, greatest));
  const graph::Value sum = b.broadcast(b.reduce(graph::ReduceKind::sum, e, {2}), dims, {0, 1});
  const graph::Value values = b.parameter(DType::f32, {2, dims[2], 8});
  const graph::Value result = b.dot(b.binary(graph::Op::divide, e, sum), values, {{0}, {0}, {2}, {1}, DType::f32});
  const auto problem = derive_attention(*b.finish({result}));
  return problem ? "" : problem.error().message;
}

TEST(UpdatedOperand, OthersAreRefusedWithAReason) {
  EXPECT_EQ(refused({2, 24, 8}, {2, 3, 8}), "");
  EXPECT_THAT(refused({2, 24, 8}, {1, 3, 8}), HasSubstr("along several dimensions"));
  EXPECT_THAT(refused({2, 24, 8}, {2, 24, 8}), HasSubstr("replaces all"));
  EXPECT_THAT(refused({2, 24, 8}, {1, 24, 8}), HasSubstr("along something else than the keys"));
  EXPECT_THAT(refused({2, 24, 8}, {2, 3, 8}, true), HasSubstr("at a place that is computed"));
  EXPECT_THAT(refused({2, 24, 8}, {2, 3, 8}, false, 20), HasSubstr("something else than the keys"));
  AttentionCase lines = with_updates({"", {2}, 16, 24, 8, 8, DType::f16}, 2);
  lines.lines_of_keys = true;
  const auto problem = derive_attention(attention_graph(lines));
  ASSERT_FALSE(problem);
  EXPECT_THAT(problem.error().message, HasSubstr("side by side along the keys"));
}

}  // namespace
}  // namespace stitch::kernel
