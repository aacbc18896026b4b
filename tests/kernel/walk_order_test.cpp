#include "kernel/structure/walk_order.h"
#include "kernel/structure/structure_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
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

TEST(WalkOrder, LargeResultsPassWhatIsReadAgain) {
  const std::int64_t rows = 4096, columns = 2048;
  const auto passing = [](const Graph& graph, const std::set<int>& tile_axes) {
    std::vector<PassingStores> all;
    for (const PhaseStructure& phase : structure_of(graph, tile_axes).phases) all.push_back(phase.passing);
    return all;
  };
  const std::vector<PassingStores> large = passing(softmax(rows, columns), {});
  ASSERT_EQ(large.size(), 5U);
  for (int p = 0; p < 4; ++p) EXPECT_TRUE(large[p].buffers.empty()) << p;
  EXPECT_EQ(large[4].buffers, (std::vector<Buffer>{{Buffer::Kind::output, 0}}));
  EXPECT_EQ(large[4].bytes, rows * columns * 4);
  // A later kernel may find a smaller one in L2, and where nothing is read again it is in nobody's way.
  for (const PassingStores& each : passing(softmax(1024, 1024), {})) EXPECT_TRUE(each.buffers.empty());
  EXPECT_TRUE(passing(softmax(rows, columns), {1})[0].buffers.empty());
}

// A result that the last phase needs stays.
TEST(WalkOrder, ResultsThatAreReadAgainStay) {
  Builder b;
  const Dims dims = {4096, 4096};
  const Value x = b.parameter(DType::f32, dims);
  const Value y = b.binary(Op::divide, x, b.broadcast(b.reduce(ReduceKind::sum, x, {0, 1}), dims, {}));
  const Value z = b.binary(Op::divide, y, b.broadcast(b.reduce(ReduceKind::max, y, {0, 1}), dims, {}));
  const Graph graph = finished(b, {y, z});
  for (const std::set<graph::Value>& materialised : {std::set<graph::Value>{}, std::set<graph::Value>{y}}) {
    StructureOptions options;
    options.materialised = materialised;
    const auto structure = derive_structure(graph, AxisAnalysis(graph), options);
    ASSERT_TRUE(structure) << structure.error().message;
    std::set<Buffer> loaded;
    for (std::size_t p = structure->phases.size(); p-- > 0;) {
      const PhaseStructure& phase = structure->phases[p];
      for (const Buffer& buffer : phase.passing.buffers) EXPECT_FALSE(loaded.contains(buffer)) << "phase " << p;
      for (const GroupStructure& group : phase.groups) {
        for (const Item& item : group.program->items()) {
          if (item.kind == Item::Kind::load) loaded.insert(item.buffer);
        }
      }
    }
    const std::vector<Buffer>& last = structure->phases.back().passing.buffers;
    EXPECT_EQ(std::ranges::count(last, Buffer{Buffer::Kind::output, 1}), 1);
  }
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
}  // namespace stitch::kernel::test
