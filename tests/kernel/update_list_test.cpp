#include "kernel/program/update_list.h"

#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// The lists of all schedules of a scatter of rows.
std::vector<std::pair<int, UpdateList>> lists_of(std::int64_t updates, std::int64_t columns) {
  Builder b;
  graph::ScatterAttributes a;
  a.update_window_dims = {1};
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  a.combiner = ReduceKind::max;
  const Value table = b.parameter(DType::f32, {1000, columns}), at = b.parameter(DType::s32, {updates, 1});
  const Graph graph = finished(b, {b.add(Op::scatter, {table, at, b.parameter(DType::f32, {updates, columns})}, a)});
  const auto candidates = search::explore_stitches(graph, RoughScorer(), {1000, false});
  if (!candidates) {
    throw std::runtime_error(candidates.error().message);
  }
  std::vector<std::pair<int, UpdateList>> lists;
  for (const search::StitchCandidate& each : *candidates) {
    const GroupProgram& group = each.program.phases.back().groups[0];
    const UpdateList list = update_list(group.structure, group.mapping, each.program.schedule.threads);
    EXPECT_EQ(group.held_bytes, list.shared_bytes());
    lists.emplace_back(each.program.schedule.threads, list);
  }
  EXPECT_FALSE(lists.empty());
  return lists;
}

TEST(UpdateList, HasPartsOfWarps) {
  for (const auto& [threads, list] : lists_of(3000, 64)) {
    EXPECT_EQ(list.parts, threads / 32);
    EXPECT_EQ(list.part % 32, 0);
    EXPECT_GE(list.chunk() * 32, 3000);
    EXPECT_LE(list.part, 512);
    EXPECT_GE(list.shared_bytes(), list.chunk() * 8 + list.parts * 12);
  }
}

TEST(UpdateList, IsOfLongRowsOnly) {
  for (const auto& [threads, list] : lists_of(3000, 24)) {
    EXPECT_EQ(list.parts, 0);
    EXPECT_EQ(list.shared_bytes(), 0);
  }
}

TEST(UpdateList, KeepsFewerUnderWayOfLongerRows) {
  EXPECT_EQ(UpdateList::in_flight(1), 4);
  EXPECT_EQ(UpdateList::in_flight(4), 4);
  EXPECT_EQ(UpdateList::in_flight(8), 2);
  EXPECT_EQ(UpdateList::in_flight(32), 1);
}

}  // namespace
}  // namespace stitch::kernel::test
