#include "tests/search/exhaustive_partition.h"

#include <gmock/gmock.h>

#include <functional>

#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

/// All partitions of `count` things: the block of each, by restricted growth.
std::vector<std::vector<int>> partitions(int count) {
  std::vector<std::vector<int>> all = {{}};
  for (int i = 0; i < count; ++i) {
    std::vector<std::vector<int>> next;
    for (const std::vector<int>& made : all) {
      const int blocks = made.empty() ? 0 : *std::max_element(made.begin(), made.end()) + 1;
      for (int block = 0; block <= blocks; ++block) {
        next.push_back(made);
        next.back().push_back(block);
      }
    }
    all = std::move(next);
  }
  return all;
}

/// x → a → (b, c) → d: a and d together without b and c would be a circle.
Graph diamond() {
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 16});
  const Value a = b.unary(Op::tanh, x);
  return finished(b, {b.binary(Op::add, b.unary(Op::exp, a), b.unary(Op::negate, a))});
}

Graph small_fragment(std::uint64_t seed) {
  graph::test::RandomGraphOptions options;
  options.seed = seed;
  options.operators = 7;
  options.parameters = 2 + seed % 2;
  if (seed % 2 == 0) {  // bytes count, not launches alone
    options.most_extent = 1024;
    options.most_elements = 1 << 22;
  }
  return graph::test::random_graph(options);
}

/// Launches are nearly free, and shared memory and operators cost: partitions with several kernels win.
class Divided final : public Scorer {
 public:
  double predict_us(const Graph& graph, const kernel::KernelProgram& program) const override {
    const double operators = graph.size();
    return 0.3 + kernel::scheduled_bytes(graph, program) / 3e6 + 0.03 * operators * operators;
  }
  Score explain(const Graph&, const kernel::KernelProgram&) const override { return {}; }
  const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_ = *find_device("h100");
};

// What dynamic programming finds is what trying all partitions one by one finds.
TEST(ExhaustivePartition, IsTheBestOfAllPartitions) {
  ASSERT_EQ(partitions(5).size(), 52U);  // Bell number
  const Divided divided;
  const RoughScorer rough;
  std::size_t several = 0;
  for (const Scorer* scorer : {static_cast<const Scorer*>(&divided), static_cast<const Scorer*>(&rough)}) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const Graph fragment = seed == 0 ? diamond() : small_fragment(seed);
      const VertexGraph vertices(fragment);
      if (vertices.size() > 7) continue;
      KernelCache cache(*scorer, {});
      double best = 1e9;
      for (const std::vector<int>& block : partitions(vertices.size())) {
        std::vector<VertexSet> parts(static_cast<std::size_t>(*std::max_element(block.begin(), block.end())) + 1,
                                     VertexSet(block.size()));
        for (std::size_t v = 0; v < block.size(); ++v) {
          parts[block[v]].insert(v);
        }
        const auto plan = plan_of_partition(vertices, parts, cache);
        if (plan) best = std::min(best, plan->cost_us());
      }
      const auto exhaustive = best_partition(vertices, cache);
      ASSERT_TRUE(exhaustive) << exhaustive.error().message;
      EXPECT_NEAR(exhaustive->predicted_us, best, 1e-9) << "seed " << seed;
      const auto plan = plan_of_partition(vertices, exhaustive->parts, cache);
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_NEAR(plan->cost_us(), best, 1e-9) << "seed " << seed;
      several += exhaustive->parts.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(several, 5U);
}

TEST(ExhaustivePartition, LeavesOutCircles) {
  const Graph fragment = diamond();
  const VertexGraph vertices(fragment);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto best = best_partition(vertices, cache);
  ASSERT_TRUE(best);
  // Of 15 sets of operators: the two ends without one, or both, of the middle.
  EXPECT_EQ(best->kernels, 12U);
}

TEST(ExhaustivePartition, RefusesWhatWouldTakeForever) {
  Builder b;
  Value x = b.parameter(DType::f32, {64});
  for (int i = 0; i <= most_exhaustive_vertices; ++i) x = b.unary(i % 2 == 0 ? Op::tanh : Op::exp, x);
  const Graph fragment = finished(b, {x});
  const VertexGraph vertices(fragment);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto best = best_partition(vertices, cache);
  ASSERT_FALSE(best);
  EXPECT_THAT(best.error().message, testing::HasSubstr("17 operators are too many"));
}

// bench/partitions does this with the model that plans are made by, on ten times as many graphs.
double mean_ratio(const Scorer& scorer) {
  double ratios = 0;
  int graphs = 0;
  for (std::uint64_t seed = 100; seed < 125; ++seed) {
    const Graph fragment = small_fragment(seed);
    const VertexGraph vertices(fragment);
    if (vertices.size() == 0 || vertices.size() > 9) continue;
    KernelCache cache(scorer, {});
    const auto best = best_partition(vertices, cache);
    const auto plan = explore_fusion(fragment, cache, {});
    EXPECT_TRUE(best && plan) << "seed " << seed;
    if (!best || !plan) continue;
    const double ratio = best->predicted_us / plan->cost_us();
    EXPECT_LE(ratio, 1 + 1e-9) << "seed " << seed << ": no plan can be better than the best";
    ratios += ratio;
    ++graphs;
  }
  EXPECT_GE(graphs, 20);
  return ratios / graphs;
}

TEST(ExhaustivePartition, BeamPlansComeClose) {
  EXPECT_GE(mean_ratio(RoughScorer()), 0.99);
  EXPECT_GE(mean_ratio(Divided()), 0.97);  // the explorer's fast score expects nothing like it
}

}  // namespace
}  // namespace stitch::search::test
