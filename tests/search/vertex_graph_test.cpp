#include "search/partition/vertex_graph.h"

#include <gtest/gtest.h>

#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

VertexSet set_of(std::size_t vertices, const std::vector<int>& members) {
  VertexSet set(vertices);
  for (const int member : members) set.insert(member);
  return set;
}

TEST(VertexSet, IsASetBeyondOneWord) {
  VertexSet a = set_of(130, {0, 63, 64, 129});
  EXPECT_EQ(a.members(), (std::vector{0, 63, 64, 129}));
  EXPECT_EQ(a.count(), 4);
  EXPECT_TRUE(a.contains(129) && !a.contains(128));
  a.erase(63);
  a.erase(1);
  EXPECT_EQ(a, set_of(130, {0, 64, 129}));
  const VertexSet b = set_of(130, {64, 100});
  EXPECT_TRUE(a.intersects(b));
  EXPECT_FALSE(a.intersects(set_of(130, {63, 65})));
  a.merge(b);
  EXPECT_EQ(a.members(), (std::vector{0, 64, 100, 129}));
  a.subtract(b);
  EXPECT_EQ(a.members(), (std::vector{0, 129}));
}

TEST(VertexSet, MissesWhatTwoOthersShare) {
  const VertexSet set = set_of(130, {1, 2});
  EXPECT_FALSE(set.misses_common(set_of(130, {1, 70}), set_of(130, {1, 71})));
  EXPECT_TRUE(set.misses_common(set_of(130, {1, 70}), set_of(130, {1, 70})));
  EXPECT_FALSE(set.misses_common(set_of(130, {}), set_of(130, {70})));
}

TEST(VertexGraph, EdgesLeadThroughAttachedOperators) {
  const Graph graph = softmax(64, 300);
  const VertexGraph vertices(graph);
  ASSERT_EQ(vertices.size(), 5);  // maximum, difference, exp, sum, quotient
  std::vector<Op> ops;
  for (int v = 0; v < 5; ++v) ops.push_back(graph.node(vertices.node(v)).op);
  EXPECT_EQ(ops, (std::vector{Op::reduce, Op::subtract, Op::exp, Op::reduce, Op::divide}));
  EXPECT_EQ(vertices.consumers(0), std::vector{1});  // through the broadcast
  EXPECT_EQ(vertices.consumers(2), (std::vector{3, 4}));
  EXPECT_EQ(vertices.producers(4), (std::vector{2, 3}));
  EXPECT_EQ(vertices.descendants(0).members(), (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(vertices.ancestors(3).members(), (std::vector{0, 1, 2}));
  const Value x{graph.parameters()[0], 0};
  EXPECT_EQ(vertices.reads(1), (std::vector{x, Value{vertices.node(0), 0}}));
  EXPECT_TRUE(vertices.is_result(4));
  EXPECT_FALSE(vertices.is_result(3));
}

TEST(VertexGraph, HoldsWhatMustBeStoredAndNothingElse) {
  Builder b;
  const Value x = b.parameter(DType::f32, {8});
  const Value shape = b.reshape(x, {4, 2});                   // attached, but a result
  const Value inner = b.broadcast(x, {3, 8}, {1});            // attached
  const Value dead = b.unary(Op::tanh, x);                    // nobody needs it
  const Value none = b.slice(b.unary(Op::exp, x), {0}, {0});  // has no elements, so exp is not needed either
  const Value used = b.unary(Op::negate, inner);
  const Graph graph = finished(b, {shape, used, none, x});
  const VertexGraph vertices(graph);
  std::vector<NodeId> nodes;
  for (int v = 0; v < vertices.size(); ++v) nodes.push_back(vertices.node(v));
  EXPECT_EQ(nodes, (std::vector{x.node, shape.node, used.node}));
  EXPECT_EQ(vertices.vertex_of(dead.node), -1);
  EXPECT_EQ(vertices.vertex_of(inner.node), -1);
  EXPECT_EQ(vertices.vertex_of(none.node), -1);
  // A parameter that is copied to a result is still read from memory by everybody else.
  EXPECT_TRUE(vertices.consumers(0).empty());
}

class RandomVertices : public testing::TestWithParam<int> {};

TEST_P(RandomVertices, ReachWhatTheirEdgesReach) {
  graph::test::RandomGraphOptions options;
  options.seed = GetParam();
  options.operators = 80;
  const Graph graph = graph::test::random_graph(options);
  const VertexGraph vertices(graph);
  for (int v = 0; v < vertices.size(); ++v) {
    VertexSet reached(vertices.size());
    std::vector<int> open = vertices.consumers(v);
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      EXPECT_GT(at, v);  // topological order
      if (reached.contains(at)) continue;
      reached.insert(at);
      open.insert(open.end(), vertices.consumers(at).begin(), vertices.consumers(at).end());
    }
    EXPECT_EQ(vertices.descendants(v), reached);
    for (int u = 0; u < vertices.size(); ++u) EXPECT_EQ(vertices.ancestors(u).contains(v), reached.contains(u));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomVertices, testing::Range(1, 6));

}  // namespace
}  // namespace stitch::search::test
