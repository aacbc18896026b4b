// The schedules that a contraction may have, and their ranking.
#include "search/contraction/contraction_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {
namespace {

using graph::DType;
using kernel::ContractionSchedule;
using kernel::test::matmul;

const DeviceSpec& device() {
  static const DeviceSpec h100 = *find_device("h100");
  return h100;
}

std::vector<ContractionSchedule> all_of(const kernel::ContractionProblem& problem,
                                        const ContractionSpaceOptions& options = {}) {
  std::vector<ContractionSchedule> schedules;
  for_each_contraction(problem, device(), options, [&](const ContractionSchedule& s) { schedules.push_back(s); });
  return schedules;
}

TEST(ContractionSpace, HasLegalSchedulesEachOnce) {
  for (const auto& [dtype, rows, columns, depth] :
       {std::tuple{DType::f16, 512, 768, 3072}, std::tuple{DType::f32, 96, 40, 70},
        std::tuple{DType::bf16, 1, 300, 64}}) {
    const auto problem = *kernel::derive_contraction(matmul(dtype, rows, columns, depth));
    const auto schedules = all_of(problem);
    EXPECT_GT(schedules.size(), 100U);
    std::set<std::string> different;
    for (const ContractionSchedule& s : schedules) {
      const Status legal = kernel::check_legality(problem, s, device());
      EXPECT_TRUE(legal) << to_string(s) << ": " << legal.error().message;
      EXPECT_TRUE(different.insert(to_string(s)).second) << to_string(s);
    }
  }
}

TEST(ContractionSpace, ProductsOfF32HaveCudaCoresBesideTensorCores) {
  for (const graph::Constraints& constraints :
       {graph::Constraints{.tf32 = true}, graph::Constraints{.tf32x3 = true}, graph::Constraints{.bf16x3 = true}}) {
    graph::Graph graph = matmul(DType::f32, 512, 768, 1024, true);
    graph.constraints = constraints;
    std::set<std::string_view> instructions;
    for (const ContractionSchedule& s : all_of(*kernel::derive_contraction(graph)))
      instructions.insert(to_string(s.instruction));
    std::set<std::string_view> expected = {"cuda_core", "mma_m16n8k8_tf32x3"};
    if (constraints.bf16x3) expected = {"cuda_core", "mma_m16n8k16_bf16x3"};
    if (constraints.tf32) expected = {"cuda_core", "mma_m16n8k8_tf32", "wgmma_m64k8_tf32"};
    EXPECT_EQ(instructions, expected);
  }
}

TEST(ContractionSpace, AblationsLeaveOutPipelining) {
  const auto problem = *kernel::derive_contraction(matmul(DType::f16, 512, 768, 3072));
  std::set<std::string> whole;
  for (const ContractionSchedule& s : all_of(problem)) whole.insert(to_string(s));
  for (const auto ablation :
       {PipelineAblation::two_stages, PipelineAblation::one_level, PipelineAblation::no_pipelining}) {
    const auto left = all_of(problem, {.ablation = ablation});
    EXPECT_LT(left.size(), whole.size());
    for (const ContractionSchedule& s : left) {
      EXPECT_TRUE(whole.contains(to_string(s)));
      if (ablation != PipelineAblation::one_level) {
        EXPECT_LE(s.stages, 2);
      }
      if (ablation != PipelineAblation::two_stages) {
        EXPECT_EQ(s.fragment_stages, 1);
      }
      if (ablation == PipelineAblation::no_pipelining) {
        EXPECT_EQ(s.stages, 1);
      }
    }
  }
  for (const ContractionSchedule& s : all_of(problem, {.most_split = 1})) EXPECT_EQ(s.split, 1);
}

TEST(ContractionSpace, TheBestAreThoseOfLeastTime) {
  const auto problem = *kernel::derive_contraction(matmul(DType::f16, 256, 256, 1024));
  // Likes square tiles of 64, four stages and narrow bands.
  const auto predict = [](const ContractionSchedule& s) {
    return 1.0 + std::abs(s.block_rows - 64) + std::abs(s.block_columns - 64) + std::abs(s.stages - 4) + s.split +
           0.01 * s.group;
  };
  const auto ranked = best_contractions(problem, device(), predict, {.count = 5});
  ASSERT_TRUE(ranked) << ranked.error().message;
  ASSERT_EQ(ranked->best.size(), 5U);
  EXPECT_EQ(ranked->enumerated, std::ssize(all_of(problem)));
  EXPECT_EQ(ranked->best[0].schedule.block_rows, 64);
  EXPECT_EQ(ranked->best[0].schedule.stages, 4);
  EXPECT_EQ(ranked->best[0].schedule.group, 1);
  for (const RankedContraction& each : ranked->best) {
    EXPECT_EQ(each.predicted_us, predict(each.schedule));
    EXPECT_GE(each.predicted_us, ranked->best[0].predicted_us);
    EXPECT_TRUE(kernel::check_legality(problem, each.schedule, device()));
  }
}

/// What is far below the greatest bound is left out, whichever of the two comes first.
TEST(ContractionSpace, IsPrunedByABound) {
  const auto problem = *kernel::derive_contraction(matmul(DType::f16, 256, 256, 1024));
  const auto predict = [](const ContractionSchedule& s) { return static_cast<double>(s.block_rows); };
  const auto bound = [](const ContractionSchedule& s) { return s.block_rows >= 64 ? 0.8 : 0.4; };
  const auto turned = [&](const ContractionSchedule& s) { return s.block_rows >= 64 ? 0.4 : 0.8; };
  const auto least = [&](double share, const auto& by) {
    const auto ranked = best_contractions(problem, device(), predict, {.count = 1, .least_bound = share}, by);
    EXPECT_EQ(ranked->enumerated, std::ssize(all_of(problem)));
    EXPECT_EQ(ranked->pruned > 0, share > 0.5);
    return ranked->best[0].schedule.block_rows;
  };
  EXPECT_EQ(least(0, bound), 16);
  EXPECT_EQ(least(0.45, bound), 16);
  EXPECT_EQ(least(0.6, bound), 64);
  EXPECT_EQ(least(0.6, turned), 16);
  const auto more = [](const ContractionSchedule& s) { return -static_cast<double>(s.block_rows); };
  EXPECT_LT(
      best_contractions(problem, device(), more, {.count = 1, .least_bound = 0.6}, turned)->best[0].schedule.block_rows,
      64);
  EXPECT_GE(best_contractions(problem, device(), more, {.count = 1}, turned)->best[0].schedule.block_rows, 64);
}

TEST(ContractionSpace, OfEqualOnesThoseWithThreeStagesAreFirst) {
  const auto first = [](std::int64_t depth, const auto& predict) {
    const auto problem = *kernel::derive_contraction(matmul(DType::f16, 256, 256, depth));
    return best_contractions(problem, *find_device("l4"), predict, {.count = 1})->best[0].schedule;
  };
  EXPECT_GE(first(1024, [](const ContractionSchedule&) { return 1.0; }).stages, 3);
  EXPECT_GE(
      first(1024, [](const ContractionSchedule& s) { return s.split > 1    ? 2.0
                                                            : s.stages < 3 ? 1.0
                                                                           : 1.01; }).stages,
      3);
  EXPECT_EQ(first(1024, [](const ContractionSchedule& s) { return s.stages == 2 ? 1.0 : 1.1; }).stages, 2);
  // One turn has no use for more.
  EXPECT_EQ(first(16, [](const ContractionSchedule&) { return 1.0; }).stages, 1);
}

/// Where L2 has much to do beside the prediction; where it has not, the first one stays.
TEST(ContractionSpace, OfEqualOnesTheOneThatAsksForLessIsFirst) {
  const auto problem = *kernel::derive_contraction(matmul(DType::f16, 4096, 4096, 1024));
  const auto first = [&](double us) {
    return best_contractions(problem, *find_device("l4"), [&](const auto&) { return us; }, {.count = 1})
        ->best[0]
        .schedule;
  };
  const ContractionSchedule pressed = first(1), idle = first(1e6);
  EXPECT_EQ(pressed.block_rows + pressed.block_columns, 384) << to_string(pressed);
  EXPECT_LT(idle.block_rows + idle.block_columns, 256) << to_string(idle);
  const auto worse = [](const ContractionSchedule& s) { return s.block_rows + s.block_columns > 256 ? 1.1 : 1.0; };
  const ContractionSchedule better =
      best_contractions(problem, *find_device("l4"), worse, {.count = 1})->best[0].schedule;
  EXPECT_EQ(better.block_rows + better.block_columns, 256) << to_string(better);
}

TEST(ContractionSpace, TilesComeByTheCopyEngineWhereItKnowsTheOperands) {
  const auto count = [](const kernel::ContractionProblem& problem, const ContractionSpaceOptions& options = {}) {
    return std::ranges::count_if(all_of(problem, options), &ContractionSchedule::tensor_copies);
  };
  const auto problem = *kernel::derive_contraction(matmul(DType::f16, 512, 768, 3072));
  EXPECT_GT(count(problem), 20);
  for (const ContractionSchedule& s : all_of(problem)) {
    if (!s.tensor_copies) continue;
    EXPECT_LE(s.resident, device().sm_count * s.blocks_per_sm) << to_string(s);
    EXPECT_EQ(s.resident % s.cluster, 0) << to_string(s);
  }
  EXPECT_EQ(count(problem, {.warpgroups = false}), 0);
  EXPECT_EQ(count(*kernel::derive_contraction(matmul(DType::f16, 512, 768, 3076))), 0) << "rows of 8-byte places";
}

TEST(ContractionSpace, OneWithoutTensorCopiesIsAmongThoseThatAreBuilt) {
  const auto problem = *kernel::derive_contraction(matmul(DType::f16, 512, 768, 3072));
  const auto predict = [](const ContractionSchedule& s) { return s.tensor_copies ? 1.0 : 2.0 + s.stages; };
  const auto ranked = best_contractions(problem, device(), predict, {.count = 8});
  ASSERT_TRUE(ranked) << ranked.error().message;
  for (std::size_t place = 0; place < ranked->best.size(); ++place)
    EXPECT_EQ(ranked->best[place].schedule.tensor_copies, place != 3) << place;
  EXPECT_EQ(ranked->best[3].schedule.stages, 1) << "the best of them";
}

/// Where tiles make no whole rounds, and only of what fits an SM together.
TEST(ContractionSpace, TurnsAreSharedWhereRoundsAreNotWhole) {
  const DeviceSpec a100 = *find_device("a100");
  const auto shared = [&](const kernel::ContractionProblem& problem, const ContractionSpaceOptions& options = {}) {
    std::vector<ContractionSchedule> schedules;
    for_each_contraction(problem, a100, options, [&](const ContractionSchedule& s) {
      if (s.streamed != 0) schedules.push_back(s);
    });
    return schedules;
  };
  const auto uneven = *kernel::derive_contraction(matmul(DType::bf16, 4096, 480, 4096));
  EXPECT_GT(shared(uneven).size(), 100U);
  for (const ContractionSchedule& s : shared(uneven)) {
    EXPECT_EQ(s.streamed, a100.sm_count * s.blocks_per_sm) << to_string(s);
    EXPECT_EQ(s.split, 1) << to_string(s);
    EXPECT_NE(kernel::shape_of(uneven, s).tiles % s.streamed, 0) << to_string(s);
    EXPECT_TRUE(kernel::check_legality(uneven, s, a100)) << to_string(s);
  }
  EXPECT_THAT(shared(uneven, {.most_split = 1}), testing::IsEmpty()) << "sums would depend on how many rows there are";
  EXPECT_THAT(shared(*kernel::derive_contraction(matmul(DType::bf16, 4096, 480, 32))), testing::IsEmpty())
      << "tiles of a turn or two";
}

TEST(ContractionSpace, DevicesWithoutAsynchronousCopiesHaveNone) {
  const auto problem = *kernel::derive_contraction(matmul(DType::f16, 64, 64, 64));
  const auto none = best_contractions(problem, *find_device("t4"), [](const auto&) { return 1.0; });
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::constraint);
  graph::Graph singles = matmul(DType::f32, 64, 64, 64);
  singles.constraints.bf16x3 = true;
  EXPECT_FALSE(best_contractions(*kernel::derive_contraction(singles), *find_device("t4"), [](const auto&) {
    return 1.0;
  })) << "tensor cores that do not take bf16";
}

}  // namespace
}  // namespace stitch::search::test
