#include "kernel/structure/item_flow.h"
#include "kernel/structure/structure_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernel/structure/items.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// The only group of a graph whose reductions all end in a tile.
GroupStructure group_of(const Graph& graph) {
  const AxisAnalysis analysis(graph);
  std::set<int> tile_axes;
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (const int axis : analysis.reduced(id)) tile_axes.insert(axis);
  }
  auto structure = derive_structure(graph, analysis, {tile_axes, {}});
  if (!structure) throw std::runtime_error(structure.error().message);
  return std::move(structure->phases.at(0).groups.at(0));
}

TEST(ItemFlow, UsesAreNeedsTheOtherWayRound) {
  for (const Graph& graph : {softmax(64, 300), layer_norm(512, 768), scanned(64, 300)}) {
    const GroupStructure group = group_of(graph);
    const ItemFlow flow(group);
    ASSERT_EQ(flow.size(), group.program->items().size());
    std::size_t needs = 0, uses = 0;
    for (std::size_t i = 0; i < flow.size(); ++i) {
      const ItemId item = i;
      const auto expected = dependencies(*group.program, item);
      EXPECT_EQ(std::set(flow.needs(item).begin(), flow.needs(item).end()), std::set(expected.begin(), expected.end()));
      std::size_t number = flow.first_need(item);
      for (const ItemId needed : flow.needs(item)) {
        const auto list = flow.uses(needed);
        EXPECT_TRUE(std::any_of(list.begin(), list.end(),
                                [&](const ItemFlow::Use& use) { return use.user == item && use.need == number; }))
            << item << " needs " << needed;
        ++number;
      }
      needs += flow.needs(item).size();
      uses += flow.uses(item).size();
    }
    EXPECT_EQ(needs, flow.need_count());
    EXPECT_EQ(uses, needs);
  }
}

TEST(ItemFlow, ItemsAreComputedBeforeTheyAreUsed) {
  const Graph graph = softmax(64, 300);
  const GroupStructure group = group_of(graph);
  const ItemFlow flow(group);
  ASSERT_EQ(group.sweep_count, 3);
  int crossing = 0;
  for (std::size_t i = 0; i < flow.size(); ++i) {
    const ItemId item = i;
    for (const ItemId needed : flow.needs(item)) EXPECT_LE(flow.computed(needed), flow.computed(item));
    if (flow.computed(item) < flow.last_use(item)) ++crossing;
  }
  for (std::size_t a = 0; a < group.anchors.size(); ++a) {
    const auto roots = flow.roots(a);
    const auto expected = roots_of(*group.program, group.anchors[a]);
    EXPECT_EQ(std::vector(roots.begin(), roots.end()), expected) << a;
  }
  // The logits, from the maximum to their exponentials, and those until they are divided by their sum.
  EXPECT_GE(crossing, 2);
}

}  // namespace
}  // namespace stitch::kernel::test
