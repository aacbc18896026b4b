// How wide a thread's accesses may be.
#include "kernel/program/access.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "kernel/structure/structure_builder.h"

namespace stitch::kernel {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;

/// Windows of a column each, put where a pair of indices says, which lie side by side with their updates.
graph::Graph side_by_side(DType index) {
  Builder b;
  const Value table = b.parameter(DType::f16, {12, 32}), places = b.parameter(index, {2, 32, 17});
  const Value updates = b.parameter(DType::f16, {10, 32, 17});
  graph::ScatterAttributes a;
  a.update_window_dims = {0};
  a.inserted_window_dims = {0};
  a.scatter_dims_to_operand_dims = {1, 0};
  a.index_vector_dim = 0;
  a.combiner = graph::ReduceKind::min;
  return *b.finish({b.add(Op::scatter, {table, places, updates}, a)});
}

/// Of a thread's updates some have a place and some have none: what is read of the first says nothing of the others.
TEST(Access, WhatIsGuardedByEachElementIsNotReadAsAWhole) {
  for (const DType index : {DType::u8, DType::u16, DType::u32, DType::s32}) {
    SCOPED_TRACE(to_string(index));
    const graph::Graph graph = side_by_side(index);
    const auto structure = derive_structure(graph, AxisAnalysis(graph), {});
    ASSERT_TRUE(structure) << structure.error().message;
    int guarded = 0, free = 0;
    for (const PhaseStructure& phase : structure->phases) {
      for (const GroupStructure& group : phase.groups) {
        const ScalarProgram& items = *group.program;
        for (int axis = 0; axis < std::ssize(items.axes().extents); ++axis) {
          const GroupAccesses found = find_accesses(group, axis, 4, std::nullopt);
          for (std::size_t i = 0; i < items.items().size(); ++i) {
            const Item& item = items.items()[i];
            if (item.kind != Item::Kind::load) continue;
            if (item.guard >= 0 && items.at(item.guard).axes.contains(axis)) {
              ++guarded;
              EXPECT_EQ(found.loads[i].width, 1) << "axis " << axis;
            } else {
              free += found.loads[i].width > 1;
            }
          }
        }
      }
    }
    EXPECT_GT(guarded, 0);
    EXPECT_GT(free, 0) << "the indices themselves are read as vectors";
  }
}

}  // namespace
}  // namespace stitch::kernel
