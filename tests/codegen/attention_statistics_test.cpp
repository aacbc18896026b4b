// Attention kernels that store their rows' maxima and sums of exponentials, on the emulated device, beside the float64
// reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "profiler/verify/verify_attention.h"
#include "tests/codegen/attention_run.h"

namespace stitch::codegen::test {
namespace {

using graph::ReduceKind;
using kernel::test::with_statistics;
using testing::HasSubstr;
using testing::Not;

constexpr auto f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;
const std::vector<ReduceKind> both = {ReduceKind::max, ReduceKind::sum};

/// Default schedules, and those by wgmma, each with the keys of a tile of rows in one part and in two.
std::vector<AttentionSchedule> schedules_of(const AttentionProblem& problem) {
  std::vector<AttentionSchedule> all = {schedule_of(problem)};
  for (const bool overlaps : {false, true}) {
    if (const auto together = warpgroup_schedule(problem, overlaps)) all.push_back(*together);
  }
  for (std::size_t i = 0, whole = all.size(); i < whole; ++i) {
    AttentionSchedule split = all[i];
    split.split = 2;
    while (split.block_keys > 32 && problem.keys() <= split.block_keys) split.block_keys /= 2;
    if (!is_warpgroup(split.instruction)) split.stages = 1;
    kernel::fit_accesses(problem, split);
    if (kernel::check_legality(problem, split, *find_device("h100"))) all.push_back(split);
  }
  return all;
}

class AttentionStatisticsEmulated : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionStatisticsEmulated, AreRight) {
  const AttentionProblem problem = problem_of(GetParam());
  int parts = 0;
  for (const AttentionSchedule& schedule : schedules_of(problem)) {
    SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
    const KernelCase each = case_of(problem, schedule);
    expect_attention(each, inputs_of(*each.graph));
    parts = std::max(parts, schedule.split);
  }
  EXPECT_EQ(parts, 2);
}

AttentionCase kept(AttentionCase each) {
  each.statistics_kept = true;
  return each;
}

AttentionCase first(AttentionCase each) {
  each.statistics_first = true;
  return each;
}

INSTANTIATE_TEST_SUITE_P(
    Of, AttentionStatisticsEmulated,
    testing::Values(
        with_statistics({"f16", {2}, 64, 128, 64, 64}, both),
        with_statistics({"bf16", {1, 3}, 96, 96, 32, 32, bf16}, both),
        with_statistics({"f32", {2}, 48, 80, 32, 32, f32}, both),
        with_statistics({"maximum", {2}, 64, 128, 64, 64}, {ReduceKind::max}),
        with_statistics({"sum", {2}, 64, 128, 64, 64}, {ReduceKind::sum}),
        with_statistics({"sum_first", {2}, 40, 72, 32, 32, f32}, {ReduceKind::sum, ReduceKind::max}),
        first(with_statistics({"first", {2, 2}, 40, 72, 32, 32, f16, Mask::causal}, both)),
        first(with_statistics({"first_f32", {2}, 40, 72, 32, 32, f32}, {ReduceKind::sum})),
        kept(with_statistics({"kept", {2, 2}, 40, 72, 32, 32, bf16}, both)),
        with_statistics({"odd", {3}, 37, 53, 40, 24}, both),
        with_statistics({"odd_f32", {2}, 21, 45, 19, 33, f32}, both),
        with_statistics({"causal", {2}, 80, 80, 64, 64, bf16, Mask::causal}, both),
        with_statistics({"causal_f32", {2}, 48, 48, 16, 16, f32, Mask::causal}, both),
        with_statistics({"window", {1, 2}, 72, 72, 32, 32, f16, Mask::window}, both),
        with_statistics({"masked_keys", {2, 2}, 40, 72, 64, 64, f16, Mask::keys}, both),
        with_statistics({"masked_rows", {2, 2}, 40, 72, 64, 64, f16, Mask::unguarded_rows}, both),
        with_statistics({"bias", {2, 2}, 40, 56, 64, 64, f32, Mask::bias}, both),
        with_statistics({"bias_f16", {2, 2}, 40, 72, 64, 64, f16, Mask::bias}, both),
        with_statistics({"shared_heads", {2, 8}, 40, 40, 32, 32, bf16, Mask::causal, 4}, both),
        with_statistics({"shared_heads_as_rows", {2, 8}, 3, 140, 32, 32, bf16, Mask::none, 4}, both),
        with_statistics({"heads_inside", {2, 3}, 40, 40, 32, 32, f16, Mask::causal, 1, false, true}, both),
        with_statistics({"shared_inside", {2, 8}, 5, 72, 32, 32, f16, Mask::none, 2, false, true}, both),
        with_statistics({"weights_right", {2}, 32, 64, 32, 48, f16, Mask::none, 1, false, false, true, true}, both),
        with_statistics({"one_row", {4}, 1, 300, 64, 64, bf16}, both)),
    [](const auto& each) { return each.param.name; });

/// A kernel that is asked for nothing has nothing of them.
TEST(AttentionStatistics, CostNothingWhereNobodyAsks) {
  const AttentionCase plain{"", {2}, 64, 128, 64, 64};
  const AttentionProblem without = problem_of(plain), with = problem_of(with_statistics(plain, both));
  const std::string source = case_of(without, schedule_of(without)).kernel.source;
  for (const char* text : {"statistics", " factor = ", "Scores, true", "out1"})
    EXPECT_THAT(source, Not(HasSubstr(text)));
  EXPECT_THAT(case_of(with, schedule_of(with)).kernel.source, HasSubstr("store_statistics<Logits>"));
  AttentionSchedule split = schedule_of(with);
  split.split = 2;
  const auto bytes = [&](const AttentionProblem& problem) { return kernel::shape_of(problem, split).part_bytes; };
  EXPECT_EQ(bytes(with) - bytes(without), kernel::shape_of(with, split).blocks * split.block_rows * 4 * 4);
}

/// Logits near 0, 5, 10 and 14, tile by tile: in the end weights are relative to a logit well below the maximum.
TEST(AttentionStatisticsEmulated, AreOfTheMaximumThatTheWeightsLagBehind) {
  constexpr double logits[] = {0, 5, 10, 14};  // of 64 · 0.25 · key · 0.125
  for (const DType dtype : {f16, f32}) {
    const AttentionProblem problem = problem_of(with_statistics({"", {1}, 64, 128, 64, 64, dtype}, both));
    std::vector<AttentionSchedule> schedules;
    for (AttentionSchedule schedule : schedules_of(problem)) {
      schedule.block_rows = std::max(64, schedule.warp_rows * (dtype == f32 ? 1 : 4));
      schedule.block_keys = 32;
      kernel::fit_accesses(problem, schedule);
      schedules.push_back(schedule);
    }
    ASSERT_GE(schedules.size(), dtype == f16 ? 6U : 2U);
    for (const AttentionSchedule& schedule : schedules) {
      SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
      const KernelCase each = case_of(problem, schedule);
      std::vector<Bytes> inputs = inputs_of(*each.graph);
      Random random(7);
      std::vector<double> queries(64 * 64, 0.25), keys;
      for (int key = 0; key < 128; ++key) {
        for (int d = 0; d < 64; ++d)
          keys.push_back(logits[key / 32] / 2 + (static_cast<double>(random.below(9)) - 4) / 64);
      }
      inputs[0] = bytes_of(dtype, queries);
      inputs[1] = bytes_of(dtype, keys);
      expect_attention(each, inputs);
      KernelCase lagging = each;
      const std::string store = "store_statistics<";
      lagging.kernel.source.insert(lagging.kernel.source.find(store),
                                   "for (int r = 0; r < Scores::own_rows; ++r) rows.own_greatest[r] = rows.greatest[r];"
                                   "\n");
      const Bytes right = run(each, inputs).results[1], wrong = run(lagging, inputs).results[1];
      EXPECT_GT(graph::load_element(f32, right.data()) - graph::load_element(f32, wrong.data()), 3)
          << "no row's base lags";
    }
  }
}

/// Rows that are NaN, or have infinite logits, or nothing but −∞, have what the reference has.
TEST(AttentionStatisticsEmulated, OfNumbersThatAreNone) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {f16, f32}) {
    const AttentionProblem problem = problem_of(with_statistics({"", {1}, 64, 72, 64, 64, dtype}, both));
    for (const AttentionSchedule& schedule : schedules_of(problem)) {
      SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
      const KernelCase each = case_of(problem, schedule);
      std::vector<Bytes> inputs = inputs_of(*each.graph);
      std::vector<double> queries(64 * 64, 0.25), keys(72 * 64, 0.5);
      queries[0] = nan;
      queries[64] = infinity;
      queries[128] = -infinity;
      inputs[0] = bytes_of(dtype, queries);
      inputs[1] = bytes_of(dtype, keys);
      expect_right(each, inputs);
      const KernelOutcome outcome = run(each, inputs);
      const auto of_row = [&](int result, int row) {
        return graph::load_element(f32, &outcome.results[result][4 * row]);
      };
      EXPECT_TRUE(std::isnan(of_row(1, 0)));
      EXPECT_TRUE(std::isnan(of_row(2, 0)));
      EXPECT_EQ(of_row(1, 1), infinity);
      EXPECT_TRUE(std::isnan(of_row(2, 1)));
      EXPECT_EQ(of_row(1, 2), -infinity);
      EXPECT_TRUE(std::isnan(of_row(2, 2)));
      EXPECT_EQ(of_row(1, 3), 1);  // 64 · 0.25 · 0.5 · 0.125
      EXPECT_EQ(of_row(2, 3), 72);
    }
  }
}

/// A batch whose keys are all hidden: the kernel's as the graph's are.
TEST(AttentionStatisticsEmulated, OfRowsThatSeeNothing) {
  for (const DType dtype : {f16, f32}) {
    const AttentionProblem problem =
        problem_of(with_statistics({"", {2, 2}, 24, 72, 32, 32, dtype, Mask::unguarded_rows}, both));
    for (const AttentionSchedule& schedule : schedules_of(problem)) {
      SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
      const KernelCase each = case_of(problem, schedule);
      const KernelOutcome outcome = run(each, inputs_of(*each.graph));
      for (std::size_t row = 0; row < 2 * 2 * 24; ++row) {
        const double greatest = graph::load_element(f32, &outcome.results[1][4 * row]);
        const double sum = graph::load_element(f32, &outcome.results[2][4 * row]);
        const bool sees = row < 2 * 24;
        EXPECT_EQ(std::isfinite(greatest), sees) << row;
        EXPECT_EQ(std::isnan(sum), !sees) << row;
        EXPECT_TRUE(sees || greatest < 0);
      }
    }
  }
}

/// What verification finds of a kernel, some of whose text is replaced.
std::string found_wrong(const AttentionProblem& problem, const AttentionSchedule& schedule, const std::string& text,
                        const std::string& by) {
  KernelCase each = case_of(problem, schedule);
  const std::size_t at = each.kernel.source.find(text);
  if (at == std::string::npos) return "no " + text;
  each.kernel.source.replace(at, text.size(), by);
  profiler::EmulatedDevice device{profiler::EmulatedOptions{}};
  const auto verification = profiler::verify_kernel(device, *problem.graph, profiler::execution_of(problem, schedule),
                                                    each.kernel, compile(each.kernel), {});
  if (!verification) return verification.error().message;
  EXPECT_EQ(verification->correct, verification->failure.empty());
  return verification->failure;
}

TEST(AttentionStatisticsEmulated, WrongOnesAreFound) {
  for (const AttentionCase& attention : {AttentionCase{"", {2, 2}, 40, 72, 64, 64, f16, Mask::causal},
                                         AttentionCase{"", {2, 2}, 40, 72, 32, 32, f32, Mask::bias}}) {
    const AttentionProblem problem = problem_of(with_statistics(attention, both));
    const std::vector<AttentionSchedule> all = schedules_of(problem);
    for (const AttentionSchedule& schedule : {all.front(), all.back()}) {
      SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
      const auto wrong = [&](const std::string& text, const std::string& by) {
        return found_wrong(problem, schedule, text, by);
      };
      EXPECT_EQ(wrong("= greatest;", "= greatest;"), "");
      EXPECT_THAT(wrong("= greatest;", "= greatest * 1.03125f;"), HasSubstr("result 1 at"));
      EXPECT_THAT(wrong("= sum;", "= sum * 1.03125f;"), HasSubstr("result 2 at"));
      EXPECT_THAT(wrong("= sum;", "= 1.f / sum;"), HasSubstr("result 2 at"));
      EXPECT_THAT(wrong("f32 greatest, f32 sum", "f32 sum, f32 greatest"), HasSubstr("result 1 at"));
      EXPECT_THAT(wrong("if (row >= 40) return;", "if (row >= 39) return;"), HasSubstr("elements were written"));
      EXPECT_THAT(wrong("block_row + warp_row, write_statistics", "block_row + warp_row + 1, write_statistics"),
                  Not(testing::IsEmpty()));
    }
  }
}

/// Of a long one some tiles of rows are run, with what they store of their rows.
TEST(AttentionStatisticsEmulated, AreSampledByTilesOfRows) {
  const AttentionProblem problem =
      problem_of(with_statistics({"", {2, 8}, 1024, 1024, 64, 64, bf16, Mask::causal}, both));
  const AttentionSchedule schedule = schedule_of(problem);
  EXPECT_EQ(found_wrong(problem, schedule, "= sum;", "= sum;"), "");
  EXPECT_THAT(found_wrong(problem, schedule, "= sum;", "= sum * 1.0625f;"), HasSubstr("result 2 at"));
}

}  // namespace
}  // namespace stitch::codegen::test
