// Attention kernels that update the keys and values that they read, on the emulated device, beside the float64
// reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/verify/verify_attention.h"
#include "tests/codegen/attention_run.h"

namespace stitch::codegen::test {
namespace {

using kernel::test::with_updates;
using testing::HasSubstr;
using testing::Not;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

/// Inputs with the new keys' place, where that is a parameter.
std::vector<Bytes> inputs_with(const graph::Graph& graph, int place) {
  std::vector<Bytes> inputs = inputs_of(graph);
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    if (graph.node(graph.parameters()[p]).type().dtype == DType::s32)
      inputs[p] = bytes_of(DType::s32, std::vector{static_cast<double>(place)});
  }
  return inputs;
}

/// The default schedule, and two parts of a row's keys, of small tiles.
std::vector<AttentionSchedule> schedules_of(const AttentionProblem& problem) {
  std::vector<AttentionSchedule> all = {schedule_of(problem)};
  AttentionSchedule s = all[0];
  s.split = 2;
  s.stages = 1;
  s.block_keys = s.block_rows = s.warp_rows = 16;
  kernel::fit_accesses(problem, s);
  all.push_back(s);
  return all;
}

class AttentionUpdatesEmulated : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionUpdatesEmulated, AreRight) {
  const AttentionProblem problem = problem_of(GetParam());
  EXPECT_EQ(problem.stores_operands(), GetParam().keeps_updated);
  const int keys = static_cast<int>(problem.keys());
  int schedules = 0;
  for (const AttentionSchedule& schedule : schedules_of(problem)) {
    SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
    const KernelCase each = case_of(problem, schedule);
    // Places beyond either end are moved within.
    expect_attention(each, inputs_with(*each.graph, schedules == 0            ? keys / 2 + 1
                                                    : problem.rows() % 2 == 0 ? keys
                                                                              : -3));
    ++schedules;
  }
}

AttentionCase inside(AttentionCase each) {
  each.heads_inside = true;
  return each;
}

INSTANTIATE_TEST_SUITE_P(Of, AttentionUpdatesEmulated,
                         testing::Values(with_updates({"decoding", {2, 8}, 1, 80, 64, 64, bf16, Mask::none, 4}, 1),
                                         with_updates({"read_alone", {2, 8}, 1, 80, 64, 64, bf16, Mask::none, 4}, 1,
                                                      false),
                                         with_updates({"some_at_once", {1, 2}, 5, 72, 32, 48, f16}, 5),
                                         with_updates({"across_tiles", {2}, 20, 64, 32, 32, f16}, 20),
                                         with_updates({"f32", {2}, 4, 48, 32, 32, f32}, 2),
                                         with_updates({"odd", {3}, 3, 53, 40, 24, f16}, 3),
                                         with_updates({"odd_f32", {2}, 3, 45, 19, 33, f32}, 1),
                                         with_updates({"tiles_of_rows", {2}, 40, 64, 32, 32, bf16}, 7),
                                         with_updates({"hidden_keys", {2}, 32, 64, 32, 32, f16, Mask::causal}, 4),
                                         with_updates(inside({"heads_inside", {2, 4}, 1, 48, 32, 32, f16}), 1),
                                         with_updates({"at_a_constant", {2, 2}, 4, 64, 32, 32, f16}, 4, true, 13),
                                         with_updates({"masked", {2, 2}, 4, 72, 64, 64, f16, Mask::keys}, 1)),
                         [](const testing::TestParamInfo<AttentionCase>& each) { return each.param.name; });

TEST(AttentionUpdatesEmulated, WhatIsNewIsMultipliedAndStored) {
  const AttentionProblem problem = problem_of(with_updates({"", {2}, 4, 64, 32, 32, f16}, 4));
  KernelCase each = case_of(problem, schedule_of(problem));
  const std::vector<Bytes> inputs = inputs_with(*each.graph, 20);
  const std::vector<Bytes> right = run(each, inputs).results;
  const std::size_t call = each.kernel.source.find("first_new_value, kept_values");
  ASSERT_NE(call, std::string::npos);
  each.kernel.source.replace(call, 15, "4096");
  const std::vector<Bytes> wrong = run(each, inputs).results;
  EXPECT_NE(wrong[0], right[0]) << "old values are multiplied";
  EXPECT_EQ(wrong[1], right[1]);
  EXPECT_NE(wrong[2], right[2]) << "and stored";
}

TEST(AttentionUpdatesText, WhatNobodyWantsIsNotStored) {
  const auto source = [](const AttentionCase& attention) {
    const AttentionProblem problem = problem_of(attention);
    return case_of(problem, schedule_of(problem)).kernel.source;
  };
  const AttentionCase plain{"", {2}, 4, 64, 32, 32, f16};
  EXPECT_THAT(source(plain), Not(HasSubstr("update_tile")));
  EXPECT_THAT(source(with_updates(plain, 1)), HasSubstr("kept_keys = out1 + Key::of_batch(batch)"));
  EXPECT_THAT(source(with_updates(plain, 1, false)), HasSubstr("kept_keys = nullptr"));
  EXPECT_THAT(source(with_updates(plain, 2, true, 9)), HasSubstr("first_new_key = 9"));
  EXPECT_THAT(source(with_updates(plain, 2, true, 99)), HasSubstr("first_new_key = 62")) << "all are within";
}

/// A sample of rows writes the keys and values of the batches whose first rows it has.
TEST(AttentionUpdatesSample, CountsWhatIsStored) {
  const AttentionProblem problem = problem_of(with_updates({"", {64}, 1, 256, 64, 32, bf16}, 1));
  const AttentionSchedule schedule = schedule_of(problem);
  const auto sample = profiler::execution_of(problem, schedule).sample(1, 3);
  ASSERT_FALSE(sample.whole());
  const std::int64_t tiles = std::ssize(sample.blocks) / schedule.split;
  EXPECT_EQ(sample.writes, tiles * (32 + 256 * (64 + 32)));
}

}  // namespace
}  // namespace stitch::codegen::test
