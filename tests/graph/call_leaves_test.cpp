#include "graph/calls/call_leaves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"

namespace stitch::graph {
namespace {

using testing::ElementsAre;

TEST(CallLeaves, AreWhatIsReadFromMemory) {
  Builder b;
  const Value x = b.parameter(DType::f32, {8, 8}), bias = b.parameter(DType::f32, {8});
  const Value root = b.unary(Op::exp, x);
  const Value repeated = b.broadcast(bias, {8, 8}, {1}), positions = b.iota(DType::f32, {8, 8}, 0);
  const Value sum = b.binary(Op::add, root, repeated);
  const Graph graph = *b.finish({b.binary(Op::add, sum, positions)});
  const std::set<NodeId> inside = {root.node, sum.node};
  CallLeaves leaves(graph, inside);
  for (const Value value : {root, repeated, positions, x, bias}) leaves.add(value);
  EXPECT_THAT(leaves.found, ElementsAre(bias, x));
  EXPECT_EQ(nodes_between(graph, root.node, sum.node), inside);
  EXPECT_TRUE(nodes_between(graph, sum.node, root.node).empty());
}

}  // namespace
}  // namespace stitch::graph
