#include "search/contraction/attention_space.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/kernel/attention_graph.h"

namespace stitch::search {
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

std::vector<AttentionSchedule> space_of(const AttentionProblem& problem, const ContractionSpaceOptions& options = {}) {
  std::vector<AttentionSchedule> all;
  for_each_attention(problem, h100, options,
                     [&](const AttentionSchedule& schedule, const kernel::KeyWalk&) { all.push_back(schedule); });
  return all;
}

TEST(AttentionSpace, HasEveryLegalScheduleOnce) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    const AttentionProblem problem = problem_of({"", {2, 8}, 300, 500, 64, 64, dtype, Mask::causal});
    std::set<std::string> seen;
    std::size_t plain = 0;
    for (const AttentionSchedule& s : space_of(problem)) {
      EXPECT_TRUE(kernel::check_legality(problem, s, h100)) << to_string(s);
      EXPECT_TRUE(seen.insert(to_string(s)).second) << to_string(s);
      if (!s.skips) ++plain;
    }
    EXPECT_GT(seen.size(), 100U);
    EXPECT_EQ(2 * plain, seen.size()) << "each with hidden keys and without";
  }
}

TEST(AttentionSpace, WithoutAMaskThereIsNothingToSkip) {
  for (const AttentionSchedule& s : space_of(problem_of({"", {2}, 64, 64, 64, 64}))) EXPECT_TRUE(s.skips);
}

TEST(AttentionSpace, AblationsAndLimitsLeaveOut) {
  const AttentionProblem problem = problem_of({"", {1, 2}, 16, 4096, 64, 64});
  int most_stages = 0, most_split = 0;
  for (const AttentionSchedule& s : space_of(problem)) {
    most_stages = std::max(most_stages, s.stages);
    most_split = std::max(most_split, s.split);
  }
  EXPECT_GE(most_stages, 3);
  EXPECT_GE(most_split, 16);
  for (const AttentionSchedule& s : space_of(problem, {.ablation = PipelineAblation::no_pipelining, .most_split = 1})) {
    EXPECT_EQ(s.stages, 1);
    EXPECT_EQ(s.split, 1);
  }
}

TEST(AttentionSpace, TheBestAreRanked) {
  const AttentionProblem problem = problem_of({"", {2, 8}, 512, 512, 64, 64, DType::bf16, Mask::causal});
  // Some law under which walking all keys takes twice as long.
  const auto predict = [](const AttentionSchedule& schedule, const kernel::KeyWalk& walk) {
    return (walk.above ? 1 : 2) * (1e4 / schedule.block_rows + schedule.block_keys) + schedule.stages;
  };
  const ContractionSpaceOptions options{.count = 8, .warpgroups = false};
  const auto ranked = best_attentions(problem, h100, predict, options);
  ASSERT_TRUE(ranked) << ranked.error().message;
  ASSERT_EQ(ranked->best.size(), 8U);
  for (std::size_t i = 1; i + 1 < ranked->best.size(); ++i)
    EXPECT_LE(ranked->best[i - 1].predicted_us, ranked->best[i].predicted_us);
  EXPECT_TRUE(ranked->best.front().schedule.skips);
  EXPECT_FALSE(ranked->best.back().schedule.skips) << "one that walks all keys, should the others be wrong";
  EXPECT_EQ(ranked->enumerated, static_cast<std::int64_t>(space_of(problem, options).size()));
}

TEST(AttentionSpace, BothInstructionsAreAmongTheFirst) {
  const AttentionProblem problem = problem_of({"", {2, 8}, 512, 512, 64, 64, DType::bf16, Mask::causal});
  for (const bool together : {false, true}) {
    const auto predict = [&](const AttentionSchedule& schedule, const kernel::KeyWalk&) {
      return is_warpgroup(schedule.instruction) == together ? 1.0 : 2.0;
    };
    const auto ranked = best_attentions(problem, h100, predict, {.count = 8});
    ASSERT_TRUE(ranked) << ranked.error().message;
    EXPECT_EQ(is_warpgroup(ranked->best[0].schedule.instruction), together);
    EXPECT_EQ(is_warpgroup(ranked->best[1].schedule.instruction), together);
    EXPECT_NE(is_warpgroup(ranked->best[2].schedule.instruction), together);
    EXPECT_FALSE(ranked->best.back().schedule.skips);
  }
}

/// Two stages at least, with the next scores beside this turn's products and without; left out where what multiplies
/// must follow from types and device alone.
TEST(AttentionSpace, WarpgroupsAreThereWhereTheDeviceHasThem) {
  const auto count = [](const AttentionProblem& problem, const DeviceSpec& device, bool warpgroups, bool overlaps) {
    int found = 0;
    for_each_attention(problem, device, {.warpgroups = warpgroups},
                       [&](const AttentionSchedule& s, const kernel::KeyWalk&) {
                         if (!is_warpgroup(s.instruction) || s.overlaps != overlaps) return;
                         EXPECT_GE(s.stages, 2);
                         ++found;
                       });
    return found;
  };
  const AttentionProblem problem = problem_of({"", {2, 8}, 512, 512, 64, 64, DType::bf16, Mask::causal});
  EXPECT_GT(count(problem, h100, true, false), 20);
  EXPECT_GT(count(problem, h100, true, true), 20);
  EXPECT_EQ(count(problem, h100, false, false), 0);
  EXPECT_EQ(count(problem, *find_device("a100"), true, false), 0);
  EXPECT_EQ(count(problem_of({"", {2, 8}, 512, 512, 64, 64, DType::f32}), h100, true, false), 0);
}

TEST(AttentionSpace, WhatNoInstructionMultipliesIsRefused) {
  const auto predict = [](const AttentionSchedule&, const kernel::KeyWalk&) { return 1.0; };
  const auto deep = best_attentions(problem_of({"", {2}, 16, 16, 300, 16}), h100, predict);
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().kind, ErrorKind::constraint);
}

}  // namespace
}  // namespace stitch::search
