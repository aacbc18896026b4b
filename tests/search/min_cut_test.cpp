#include "search/partition/min_cut.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace stitch::search {
namespace {

struct Edge {
  int from, to;
  std::int64_t capacity;
};

std::vector<bool> source_side(int nodes, const std::vector<Edge>& edges) {
  MinCut cut(nodes);
  for (const Edge& edge : edges) cut.edge(edge.from, edge.to, edge.capacity);
  return cut.source_side(0, nodes - 1);
}

std::int64_t capacity(const std::vector<bool>& side, const std::vector<Edge>& edges) {
  std::int64_t total = 0;
  for (const Edge& edge : edges) {
    if (side[edge.from] && !side[edge.to]) total += edge.capacity;
  }
  return total;
}

struct Example {
  std::string name;
  int nodes;  ///< the first is the source, the last the sink
  std::vector<Edge> edges;
  std::vector<bool> side;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

class MinCutOf : public testing::TestWithParam<Example> {};

TEST_P(MinCutOf, Network) { EXPECT_EQ(source_side(GetParam().nodes, GetParam().edges), GetParam().side); }

INSTANTIATE_TEST_SUITE_P(
    Networks, MinCutOf,
    testing::Values(
        Example{"not_connected", 3, {{0, 1, 5}}, {true, true, false}},
        Example{"bottleneck", 4, {{0, 1, 5}, {1, 2, 2}, {2, 3, 4}}, {true, true, false, false}},
        Example{"nearest_the_source_of_two", 4, {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}}, {true, false, false, false}},
        Example{"parallel_edges_add_up", 3, {{0, 1, 2}, {0, 1, 2}, {1, 2, 3}}, {true, true, false}},
        // Two ways of 10 beside an edge between them.
        Example{
            "two_ways", 4, {{0, 1, 10}, {0, 2, 10}, {1, 2, 1}, {1, 3, 10}, {2, 3, 10}}, {true, false, false, false}},
        // The shortest way 0-1-4-7 blocks both longer ones; flow back along 4-1 frees them.
        Example{"flow_must_be_taken_back_from_the_shortest_way",
                8,
                {{0, 1, 1}, {1, 4, 1}, {4, 7, 1}, {0, 2, 1}, {2, 5, 1}, {5, 4, 1}, {1, 3, 1}, {3, 6, 1}, {6, 7, 1}},
                {true, false, false, false, false, false, false, false}},
        Example{"infinite_edges_are_not_cut",
                4,
                {{0, 1, MinCut::infinite}, {1, 2, 7}, {2, 3, MinCut::infinite}},
                {true, true, false, false}},
        Example{
            "edges_back_cost_nothing", 4, {{0, 1, 9}, {1, 2, 3}, {2, 1, 100}, {2, 3, 9}}, {true, true, false, false}}),
    [](const auto& each) { return each.param.name; });

TEST(MinCut, IsTheCheapestOfAllCutsAndNearestToEitherEnd) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    const int nodes = 2 + random.below(7);
    std::vector<Edge> edges;
    const auto count = random.below(20);
    for (std::uint64_t e = 0; e < count; ++e) {
      const auto any = [&]() -> int { return random.below(nodes); };
      const Edge edge{any(), any(), static_cast<std::int64_t>(random.below(12))};
      if (edge.from != edge.to) edges.push_back(edge);
    }
    MinCut cut(nodes);
    for (const Edge& edge : edges) cut.edge(edge.from, edge.to, edge.capacity);
    const std::vector<bool> side = cut.source_side(0, nodes - 1), far = cut.far_source_side(nodes - 1);
    for (const std::vector<bool>& either : {side, far}) {
      ASSERT_TRUE(either.front());
      ASSERT_FALSE(either.back());
    }
    EXPECT_EQ(capacity(far, edges), capacity(side, edges)) << "round " << round;
    std::int64_t least = MinCut::infinite;
    std::vector<std::vector<bool>> cheapest;
    for (unsigned mask = 0; mask < 1U << nodes; ++mask) {
      if ((mask & 1) == 0 || (mask >> (nodes - 1)) != 0) continue;
      std::vector<bool> other;
      for (int i = 0; i < nodes; ++i) other.push_back(((mask >> i) & 1) != 0);
      const std::int64_t cost = capacity(other, edges);
      if (cost < least) {
        least = cost;
        cheapest.clear();
      }
      if (cost == least) cheapest.push_back(other);
    }
    ASSERT_EQ(capacity(side, edges), least) << "round " << round;
    for (const std::vector<bool>& other : cheapest) {
      for (std::size_t i = 0; i < side.size(); ++i)
        EXPECT_TRUE((!side[i] || other[i]) && (!other[i] || far[i])) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace stitch::search
