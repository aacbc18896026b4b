#include "costmodel/contraction/attention_time.h"

#include <gtest/gtest.h>

#include "tests/kernel/attention_graph.h"

namespace stitch::costmodel {
namespace {

using graph::DType;
using kernel::AttentionProblem;
using kernel::AttentionSchedule;
using kernel::test::attention_graph;
using kernel::test::AttentionCase;
using kernel::test::Mask;

const DeviceSpec h100 = *find_device("h100");

AttentionProblem problem_of(const AttentionCase& attention) {
  return *kernel::derive_attention(attention_graph(attention));
}

AttentionTime time_of(const AttentionProblem& problem, const AttentionSchedule& schedule,
                      const DeviceSpec& device = h100) {
  return attention_time(problem, schedule, kernel::key_walk(problem, schedule), device);
}

AttentionSchedule default_of(const AttentionProblem& problem) { return *kernel::default_schedule(problem, h100); }

TEST(AttentionTime, GrowsWithWhatThereIsToDo) {
  const AttentionProblem once = problem_of({"", {4, 16}, 1024, 1024, 64, 64}),
                         twice = problem_of({"", {8, 16}, 1024, 1024, 64, 64}),
                         longer = problem_of({"", {4, 16}, 1024, 2048, 64, 64});
  const double base = time_of(once, default_of(once)).total;
  EXPECT_NEAR(time_of(twice, default_of(twice)).total / base, 2, 0.3);
  EXPECT_NEAR(time_of(longer, default_of(longer)).total / base, 2, 0.3);
}

TEST(AttentionTime, AMaskOfPositionsHalvesIt) {
  const AttentionProblem all = problem_of({"", {4, 16}, 4096, 4096, 64, 64}),
                         causal = problem_of({"", {4, 16}, 4096, 4096, 64, 64, DType::f16, Mask::causal});
  AttentionSchedule s = default_of(all);
  const double ratio = time_of(causal, s).turns / time_of(all, s).turns;
  EXPECT_NEAR(ratio, 0.5, 0.02);
  AttentionSchedule walks_all = s;
  walks_all.skips = false;
  EXPECT_LT(time_of(causal, s).total, 0.65 * time_of(causal, walks_all).total);
}

/// What is bound to be true of any prediction: no less than its limits and the launch.
TEST(AttentionTime, IsNoLessThanItsLimits) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const char* target : {"a100", "l4", "h100", "rtx4090"}) {
      const AttentionProblem problem = problem_of({"", {2, 8}, 512, 512, 64, 64, dtype});
      const DeviceSpec device = *find_device(target);
      const AttentionTime time = time_of(problem, *kernel::default_schedule(problem, device), device);
      for (const auto& [name, us] : time.limits()) EXPECT_GE(time.total, us + time.launch) << name << " " << target;
      EXPECT_GE(time.loop, time.multiply);
      EXPECT_GE(time.dram_bytes, static_cast<double>(problem.least_bytes()));
      EXPECT_STRNE(time.binding().first, "");
    }
  }
}

/// Keys and values that heads share are read once.
TEST(AttentionTime, SharedHeadsReadLess) {
  const AttentionProblem own = problem_of({"", {4, 16}, 64, 4096, 64, 64}),
                         shared = problem_of({"", {4, 16}, 64, 4096, 64, 64, DType::f16, Mask::none, 4});
  EXPECT_LT(time_of(shared, default_of(shared)).dram_bytes, 0.4 * time_of(own, default_of(own)).dram_bytes);
}

/// Of one row and many keys blocks that share the keys are faster.
TEST(AttentionTime, SplittingHelpsWhereTilesAreFew) {
  const AttentionProblem problem = problem_of({"", {1, 8}, 1, 32768, 64, 64});
  AttentionSchedule s = default_of(problem);
  AttentionSchedule split = s;
  split.split = 16;
  EXPECT_LT(time_of(problem, split).total, 0.3 * time_of(problem, s).total);
  EXPECT_GT(time_of(problem, split).partial, 0);
}

/// By wgmma long prefills take less; products that run beside the exponentials less still, where no other block fills
/// the waits; a mask of positions costs little.
TEST(AttentionTime, WarpgroupsMultiplyFaster) {
  for (const std::int64_t depth : {64, 128}) {
    const AttentionProblem problem = problem_of({"", {4, 16}, 4096, 4096, depth, depth}),
                           causal = problem_of({"", {4, 16}, 4096, 4096, depth, depth, DType::f16, Mask::causal});
    AttentionSchedule s = default_of(problem);
    const double alone = time_of(problem, s).total;
    s.instruction = kernel::warpgroup_instruction_for(problem, h100).value();
    s.block_rows = s.block_keys = 128;
    ASSERT_TRUE(kernel::check_legality(problem, s, h100));
    const double together = time_of(problem, s).total;
    EXPECT_LT(together, alone);
    s.overlaps = true;
    ASSERT_TRUE(kernel::check_legality(problem, s, h100));
    const AttentionTime overlapped = time_of(problem, s);
    EXPECT_LE(overlapped.total, together);
    for (const auto& [name, us] : overlapped.limits()) EXPECT_GE(overlapped.total, us + overlapped.launch) << name;
    EXPECT_NEAR(time_of(causal, s).total / overlapped.total, 0.53, 0.06);
  }
}

TEST(AttentionTime, ThreeStepsMoveTheScores) {
  const AttentionProblem problem = problem_of({"", {8, 16}, 2048, 2048, 64, 64});
  EXPECT_GT(unfused_attention_us(problem, h100), 2 * time_of(problem, default_of(problem)).total);
}

}  // namespace
}  // namespace stitch::costmodel
