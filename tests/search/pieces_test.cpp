#include "search/partition/pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/simplify.h"
#include "search/partition/fusion_explorer.h"
#include "tests/graph/edge_graph.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"
#include "tests/search/plan_checks.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

/// So few that every fragment has several pieces.
FusionOptions few_together() {
  FusionOptions options;
  options.most_together = 4;
  return options;
}

class PiecesPlan : public testing::TestWithParam<int> {};

TEST_P(PiecesPlan, IsRunnableCompleteAndRight) {
  graph::test::RandomGraphOptions random;
  random.seed = GetParam();
  random.operators = 24;
  random.parameters = 3;
  random.scan = GetParam() % 2;
  random.arg_reduce = 1;
  const Graph fragment = graph::test::random_graph(random);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  ASSERT_GT(operators_of(fragment), 4);
  const auto pieces = cut_in_pieces(fragment, 4);
  EXPECT_GT(pieces.size(), 1U);
  const auto plan = explore_fusion(fragment, cache, few_together());
  ASSERT_TRUE(plan) << plan.error().message;
  check_plan(fragment, *plan);
  check_values(fragment, *plan, graph::test::random_arguments(fragment, random.seed));
}

INSTANTIATE_TEST_SUITE_P(Seeds, PiecesPlan, testing::Range(1, 31));

// Parameters and constants that are results, values without elements, operators that nobody needs.
TEST(PiecesEdgePlan, IsRunnable) {
  int plans = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Graph fragment = graph::test::edge_graph(seed);
    ASSERT_TRUE(graph::simplify(fragment));
    const RoughScorer scorer;
    KernelCache cache(scorer, {});
    const auto plan = explore_fusion(fragment, cache, few_together());
    const auto whole = explore_fusion(fragment, cache, {});
    EXPECT_EQ(plan.ok(), whole.ok()) << "seed " << seed;
    if (!plan) continue;
    ++plans;
    check_plan(fragment, *plan);
  }
  EXPECT_GT(plans, 150);
}

TEST(ExploringStops, WhenItIsTold) {
  graph::test::RandomGraphOptions random;
  random.seed = 3;
  random.operators = 40;
  const Graph fragment = graph::test::random_graph(random);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  std::stop_source stop;
  stop.request_stop();
  FusionOptions options;
  options.stop = stop.get_token();
  const auto plan = explore_fusion(fragment, cache, options);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(cache.size(), 0U) << "nothing was explored";
}

}  // namespace
}  // namespace stitch::search::test
