#include "graph/graph.h"

#include <gtest/gtest.h>

#include <limits>

#include "graph/builder.h"
#include "graph/verify.h"

namespace stitch::graph {
namespace {

TEST(Graph, AddInfersTypesAndNumbersNodes) {
  Graph graph;
  const Value x = *graph.add(Op::parameter, {}, ParameterAttributes{{DType::f32, {4, 8}}}, "x");
  const Value y = *graph.add(Op::reduce, {x}, ReduceAttributes{ReduceKind::sum, {1}}, "y", 12);
  EXPECT_EQ(y, (Value{1, 0}));
  EXPECT_EQ(to_string(graph.type(y)), "f32[4]");
  EXPECT_EQ(graph.node(1).line, 12);
  EXPECT_EQ(graph.parameters().size(), 1U);
  EXPECT_EQ(graph.size(), 2);
}

TEST(Graph, AddErrorsSayWhere) {
  Graph graph;
  const Value x = *graph.add(Op::parameter, {}, ParameterAttributes{{DType::s32, {4}}});
  EXPECT_EQ(graph.add(Op::exp, {x}, NoAttributes{}, "gelu/exp", 12).error().message,
            "exp 'gelu/exp' (line 12): operand 0 is s32, which exp does not take");
  EXPECT_EQ(graph.add(Op::exp, {{7, 0}}).error().message, "exp #1: operand 0 does not exist");
  EXPECT_EQ(graph.add(Op::exp, {{0, 1}}).error().message, "exp #1: operand 0 does not exist");
  EXPECT_EQ(graph.size(), 1);  // nothing was added
}

TEST(Graph, UsersAreAscendingWithoutRepeats) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4});
  const Value square = b.binary(Op::multiply, x, x);
  const Value sum = b.binary(Op::add, square, x);
  const Graph graph = *b.finish({sum, square, sum});
  const auto lists = users(graph);
  EXPECT_EQ(lists[0], (std::vector<NodeId>{1, 2}));
  EXPECT_EQ(lists[1], (std::vector<NodeId>{2}));
  EXPECT_TRUE(lists[2].empty());
  EXPECT_EQ(is_result(graph), (std::vector<bool>{false, true, true}));
}

/// A loop of `trips` around `inner`, or around an increment.
Graph loop_of(std::int64_t trips, const Graph* inner) {
  Builder body("body");
  const Value x = body.parameter(DType::s32, {});
  Value next = body.binary(Op::add, x, body.scalar(DType::s32, 1));
  if (inner != nullptr) {
    next = body.add(Op::conditional, {body.scalar(DType::s32, 0), next}, NoAttributes{},
                    {std::make_shared<const Graph>(*inner)});
  }
  Builder condition("condition");
  const Value y = condition.parameter(DType::s32, {});
  const Graph decide = *condition.finish({condition.compare(Comparison::lt, y, condition.scalar(DType::s32, 9))});
  Builder b("outer");
  const Value z = b.parameter(DType::s32, {});
  b.at("while");
  const Value end = b.add(Op::loop, {z}, LoopAttributes{trips},
                          {std::make_shared<const Graph>(*body.finish({next})), std::make_shared<const Graph>(decide)});
  return *b.finish({end});
}

std::vector<std::string> visited(const Graph& graph) {
  std::vector<std::string> list;
  for_each_region(graph, [&](const RegionSite& site) {
    list.push_back(fmt::format("{} {} {}", site.graph.name, site.occurrences, site.path));
  });
  return list;
}

TEST(Graph, RegionsAreVisitedWithTheirOccurrences) {
  EXPECT_EQ(visited(loop_of(7, nullptr)),
            (std::vector<std::string>{"outer 1 ", "body 7 /while.0", "condition 0 /while.1"}));
  const Graph inner = loop_of(5, nullptr);
  EXPECT_EQ(
      visited(loop_of(3, &inner)),
      (std::vector<std::string>{"outer 1 ", "body 3 /while.0", "outer 3 /while.0/.0", "body 15 /while.0/.0/while.0",
                                "condition 0 /while.0/.0/while.1", "condition 0 /while.1"}));
}

TEST(Graph, RegionsAreLeftOutWhereTheVisitorDoesNotEnter) {
  const Graph inner = loop_of(5, nullptr), outer = loop_of(3, &inner);
  std::vector<std::string> list;
  const auto note = [&](const RegionSite& site) { list.push_back(site.graph.name); };
  for_each_region(outer, note, [&](const Graph& graph, NodeId id) {
    EXPECT_FALSE(graph.node(id).regions.empty());
    return &graph == &outer;  // the loop of the loop's body is not entered
  });
  EXPECT_EQ(list, (std::vector<std::string>{"outer", "body", "condition"}));
}

TEST(Graph, OccurrencesOfUnknownAndHugeLoops) {
  EXPECT_EQ(visited(loop_of(-1, nullptr)),
            (std::vector<std::string>{"outer 1 ", "body 1 /while.0", "condition 1 /while.1"}));
  EXPECT_EQ(visited(loop_of(0, nullptr))[1], "body 0 /while.0");
  const Graph inner = loop_of(std::int64_t{1} << 40, nullptr);
  std::int64_t most = 0;
  for_each_region(loop_of(std::int64_t{1} << 40, &inner),
                  [&](const RegionSite& site) { most = std::max(most, site.occurrences); });
  EXPECT_EQ(most, std::numeric_limits<std::int64_t>::max());
}

TEST(Graph, OperatorCountLeavesOutParametersAndConstants) {
  EXPECT_EQ(operator_count(loop_of(7, nullptr)), 3);  // loop, add, compare
}

TEST(Graph, ReleasedNodesCanBeAdopted) {
  Graph graph = loop_of(7, nullptr);
  graph.name = "name";
  std::vector<Node> nodes = graph.release_nodes();
  EXPECT_EQ(graph.size(), 0);
  EXPECT_TRUE(graph.parameters().empty());
  EXPECT_EQ(nodes.size(), 2U);
  Graph other;
  other.adopt_nodes(std::move(nodes));
  EXPECT_EQ(other.parameters().size(), 1U);
  EXPECT_TRUE(verify(other).ok());
}

}  // namespace
}  // namespace stitch::graph
