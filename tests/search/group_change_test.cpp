// A kernel with another mapping of one of its groups: it is what its schedule gives, or why it cannot be.
#include "search/schedule/group_change.h"

#include <gmock/gmock.h>

#include "kernel/program/program_builder.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search {
namespace {

using namespace kernel::test;

TEST(GroupChange, IsTheKernelThatItsScheduleGives) {
  const Graph graph = layer_norm_backward(2048, 256);
  const kernel::AxisAnalysis analysis(graph);
  const auto found = explore_stitches(graph, RoughScorer(), {.keep = 40, .looks_ahead = 0});
  ASSERT_TRUE(found) << found.error().message;
  int changed = 0;
  for (const StitchCandidate& candidate : *found) {
    for (std::size_t p = 0; p < candidate.program.phases.size(); ++p) {
      kernel::GroupMapping mapping = candidate.schedule.phases[p][0];
      const auto same = with_mapping(candidate.program, p, 0, mapping);
      ASSERT_TRUE(same) << same.error().message;
      EXPECT_EQ(same->schedule, candidate.schedule);
      EXPECT_EQ(same->registers, candidate.program.registers);
      EXPECT_EQ(same->shared_bytes, candidate.program.shared_bytes);
      mapping.hold = kernel::Hold::shared;
      const auto held = with_mapping(candidate.program, p, 0, mapping);
      if (!held) continue;
      const auto structure = kernel::derive_structure(graph, analysis, {candidate.schedule.tile_axes, {}});
      ASSERT_TRUE(structure) << structure.error().message;
      const auto derived = kernel::derive_program(graph, *structure, held->schedule);
      ASSERT_TRUE(derived) << derived.error().message;
      EXPECT_EQ(derived->registers, held->registers);
      EXPECT_EQ(derived->shared_bytes, held->shared_bytes);
      EXPECT_EQ(derived->partial_count, held->partial_count);
      changed += held->shared_bytes != candidate.program.shared_bytes ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 3);
}

TEST(GroupChange, IsRefusedWhereTheMappingDoesNotCoverTheGroup) {
  const Graph graph = softmax(64, 300);
  const auto found = explore_stitches(graph, RoughScorer(), {.keep = 1});
  ASSERT_TRUE(found) << found.error().message;
  kernel::GroupMapping mapping = found->front().schedule.phases[0][0];
  for (kernel::AxisMapping& axis : mapping.axes) axis.extent.fill(1);
  const auto changed = with_mapping(found->front().program, 0, 0, mapping);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::constraint);
  EXPECT_THAT(changed.error().message, testing::HasSubstr("is covered to 1"));
}

}  // namespace
}  // namespace stitch::search
