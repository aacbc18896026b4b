#include "search/walk_order.h"

#include <gtest/gtest.h>

#include "tests/search/example_graphs.h"

namespace stitch::search::test {
namespace {

KernelStructure structure_of(const Graph& graph, const std::set<int>& tile_axes) {
  auto structure = derive_structure(graph, AxisAnalysis(graph), {tile_axes, {}});
  if (!structure) {
    throw std::runtime_error(structure.error().message);
  }
  return std::move(*structure);
}

std::vector<bool> directions(const KernelStructure& structure) {
  std::vector<bool> backwards;
  for (const PhaseStructure& phase : structure.phases) backwards.push_back(phase.backwards);
  return backwards;
}

/// Maximum, then sum of exponentials, then quotients: x is read three times.
TEST(WalkOrder, TurnsRoundWhereverTheSameIsReadAgain) {
  const std::int64_t bytes = std::int64_t{2048} * 1024 * 4;
  const KernelStructure structure = structure_of(softmax(2048, 1024), {});
  ASSERT_EQ(structure.phases.size(), 5U);
  EXPECT_EQ(directions(structure), (std::vector<bool>{false, false, true, false, false}));
  ASSERT_EQ(structure.phases[2].rereads.size(), 1U);
  EXPECT_EQ(structure.phases[2].rereads[0].phase, 0);
  EXPECT_EQ(structure.phases[2].rereads[0].bytes, bytes);
  ASSERT_EQ(structure.phases[4].rereads.size(), 1U);
  EXPECT_EQ(structure.phases[4].rereads[0].phase, 2);
  EXPECT_EQ(structure.phases[4].rereads[0].bytes, bytes);
}

TEST(WalkOrder, ScansAndUpdatesSayNothing) {
  Builder b;
  const Value x = b.parameter(DType::f32, {2048, 1024});
  const Value sums = b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 1, false, false});
  const KernelStructure structure = structure_of(finished(b, {b.unary(Op::negate, sums)}), {});
  ASSERT_EQ(structure.phases.size(), 2U);
  EXPECT_TRUE(structure.phases[1].rereads.empty()) << "a scan's own walk is not known";
  const KernelStructure updated = structure_of(scattered(1 << 16, 8, 1 << 15), {});
  ASSERT_EQ(updated.phases.size(), 2U);
  EXPECT_FALSE(updated.phases[1].backwards) << "updates go anywhere";
}

TEST(WalkOrder, SmallTensorsAreInCacheInAnyOrder) {
  const KernelStructure structure = structure_of(softmax(64, 300), {});
  EXPECT_EQ(directions(structure), std::vector<bool>(5, false));
  for (const PhaseStructure& phase : structure.phases) EXPECT_TRUE(phase.rereads.empty());
}

TEST(WalkOrder, OnePhaseGoesForwards) {
  const KernelStructure structure = structure_of(softmax(2048, 1024), {1});
  EXPECT_EQ(directions(structure), std::vector<bool>{false});
}

}  // namespace
}  // namespace stitch::search::test
