// The best schedules with their loads a turn ahead: which are taken, and that they are what deriving them would give.
#include "search/schedule/ahead_choice.h"

#include <gmock/gmock.h>

#include <functional>

#include "kernel/program/program_builder.h"
#include "kernel/program/schedule_hash.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search {
namespace {

using namespace kernel::test;

int stages_of(const kernel::KernelProgram& program) {
  int stages = 0;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) stages = std::max(stages, group.mapping.stages);
  }
  return stages;
}

/// A prediction by the number of groups that look ahead: 100, and so much for each.
auto counting(double each) {
  return [each](const kernel::KernelProgram& program) -> std::optional<double> {
    double us = 100;
    for (const kernel::PhaseProgram& phase : program.phases) {
      for (const kernel::GroupProgram& group : phase.groups) us += group.mapping.stages > 1 ? each : 0;
    }
    return us;
  };
}

std::vector<StitchCandidate> candidates(const Graph& graph) {
  auto found = explore_stitches(graph, RoughScorer(), {.keep = 60, .looks_ahead = 0});
  EXPECT_TRUE(found) << found.error().message;
  return std::move(*found);
}

TEST(AheadChoice, IsTheKernelThatItsScheduleGives) {
  int changed = 0;
  const Graph graph = layer_norm_backward(2048, 256);
  for (const StitchCandidate& candidate : candidates(graph)) {
    const auto ahead = with_loads_ahead(candidate.program, 100, counting(-5));
    if (!ahead) continue;
    ++changed;
    EXPECT_EQ(stages_of(candidate.program), 1);
    EXPECT_EQ(stages_of(*ahead), 2);
    EXPECT_NE(kernel::schedule_hash(ahead->schedule), kernel::schedule_hash(candidate.schedule));
    const kernel::AxisAnalysis analysis(graph);
    const auto structure = kernel::derive_structure(graph, analysis, {ahead->schedule.tile_axes, {}});
    ASSERT_TRUE(structure) << structure.error().message;
    const auto derived = kernel::derive_program(graph, *structure, ahead->schedule);
    ASSERT_TRUE(derived) << derived.error().message;
    EXPECT_EQ(derived->registers, ahead->registers);
    EXPECT_EQ(derived->shared_bytes, ahead->shared_bytes);
    EXPECT_EQ(derived->blocks, ahead->blocks);
    EXPECT_EQ(derived->phases[0].groups[0].ahead.loads, ahead->phases[0].groups[0].ahead.loads);
    EXPECT_EQ(derived->partial_count, ahead->partial_count);
  }
  EXPECT_GT(changed, 3);
}

/// A prediction that likes stages in shared memory, up to so many.
auto liking_shared(int most) {
  return [most](const kernel::KernelProgram& program) -> std::optional<double> {
    double us = 100;
    for (const kernel::PhaseProgram& phase : program.phases) {
      for (const kernel::GroupProgram& group : phase.groups)
        us -= group.mapping.shared_stages ? 5 * std::min(group.mapping.stages, most) : 0;
    }
    return us;
  };
}

// Stages in shared memory are as few as the prediction gains by, and the kernel is what its schedule gives.
TEST(AheadChoice, TakesAsManyStagesOfSharedMemoryAsPay) {
  int changed = 0;
  const Graph graph = layer_norm_backward(8192, 256);
  for (const StitchCandidate& candidate : candidates(graph)) {
    const auto ahead = with_loads_ahead(candidate.program, 100, liking_shared(3));
    if (!ahead || stages_of(*ahead) < 3) continue;  // too few turns
    ++changed;
    EXPECT_EQ(stages_of(*ahead), 3);
    const kernel::AxisAnalysis analysis(graph);
    const auto structure = kernel::derive_structure(graph, analysis, {ahead->schedule.tile_axes, {}});
    ASSERT_TRUE(structure) << structure.error().message;
    const auto derived = kernel::derive_program(graph, *structure, ahead->schedule);
    ASSERT_TRUE(derived) << derived.error().message;
    EXPECT_EQ(derived->registers, ahead->registers);
    EXPECT_EQ(derived->shared_bytes, ahead->shared_bytes);
    EXPECT_GT(derived->shared_bytes, candidate.program.shared_bytes);
  }
  EXPECT_GT(changed, 3);
}

TEST(AheadChoice, IsMadeOnlyForWhatIsClearlyFaster) {
  int loops = 0;
  for (const StitchCandidate& candidate : candidates(layer_norm_backward(2048, 256))) {
    EXPECT_FALSE(with_loads_ahead(candidate.program, 100, counting(-0.5)));
    EXPECT_FALSE(with_loads_ahead(candidate.program, 100, counting(5)));
    EXPECT_FALSE(
        with_loads_ahead(candidate.program, 100, [](const kernel::KernelProgram&) { return std::optional<double>(); }));
    loops += with_loads_ahead(candidate.program, 100, counting(-5)) ? 1 : 0;
  }
  EXPECT_GT(loops, 3);
}

TEST(AheadChoice, LeavesAloneWhatHasNoLoopOfLoads) {
  for (const StitchCandidate& candidate : candidates(scanned(64, 1000)))
    EXPECT_FALSE(with_loads_ahead(candidate.program, 100, counting(-5)));
}

}  // namespace
}  // namespace stitch::search
