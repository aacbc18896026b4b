#include "search/partition/patterns.h"

#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

struct Explored {
  Graph graph;
  VertexGraph vertices;
  kernel::AxisAnalysis axes;
  DeltaEvaluator evaluator;

  explicit Explored(Graph made)
      : graph(std::move(made)),
        vertices(graph),
        axes(graph),
        evaluator(vertices, axes, DeltaModel::of(*find_device("h100"))) {}
  Explored(const Explored&) = delete;
};

Graph random_fragment(std::uint64_t seed, int operators) {
  graph::test::RandomGraphOptions options;
  options.seed = seed;
  options.operators = operators;
  options.scan = 1;
  return graph::test::random_graph(options);
}

/// A vertex outside that lies on a way out of the set and back in.
bool has_detour(const VertexGraph& vertices, const VertexSet& set) {
  for (int w = 0; w < vertices.size(); ++w) {
    if (!set.contains(w) && vertices.ancestors(w).intersects(set) && vertices.descendants(w).intersects(set))
      return true;
  }
  return false;
}

class RandomPatterns : public testing::TestWithParam<int> {};

TEST_P(RandomPatterns, AreConvexScoredAndBestFirst) {
  const Explored e(random_fragment(GetParam(), 40));
  for (const PatternOptions& options : {PatternOptions{}, PatternOptions{1, 1, 192}, PatternOptions{5, 2, 4}}) {
    const auto patterns = generate_patterns(e.vertices, e.evaluator, options);
    ASSERT_EQ(std::ssize(patterns), e.vertices.size());
    for (int v = 0; v < e.vertices.size(); ++v) {
      const auto& list = patterns[v];
      ASSERT_FALSE(list.empty());
      EXPECT_LE(std::ssize(list), options.per_vertex);
      std::set<VertexSet> seen;
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Pattern& pattern = list[i];
        EXPECT_TRUE(pattern.vertices.contains(v));
        EXPECT_EQ(pattern.vertices.members().front(), v) << "a pattern starts at its vertex";
        EXPECT_LE(pattern.vertices.count(), options.max_vertices);
        EXPECT_FALSE(has_detour(e.vertices, pattern.vertices));
        EXPECT_TRUE(seen.insert(pattern.vertices).second);
        if (pattern.vertices.count() > 1) {
          EXPECT_EQ(pattern.gain_us, e.evaluator.gain_us(pattern.vertices));
        }
        if (i > 0) {
          EXPECT_LE(pattern.gain_us, list[i - 1].gain_us);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPatterns, testing::Range(1, 11));

TEST(Patterns, ConvexityIsThatOfTheGraph) {
  const Explored e(random_fragment(21, 12));
  ASSERT_LE(e.vertices.size(), 16);
  int convex = 0;
  for (unsigned mask = 1; mask < 1U << e.vertices.size(); ++mask) {
    std::optional<Pattern> pattern;
    for (int v = 0; v < e.vertices.size(); ++v) {
      if (((mask >> v) & 1) == 0) continue;
      pattern = pattern ? united(*pattern, single(e.vertices, v)) : single(e.vertices, v);
    }
    ASSERT_EQ(pattern->is_convex(), !has_detour(e.vertices, pattern->vertices)) << mask;
    convex += pattern->is_convex() ? 1 : 0;
  }
  EXPECT_GT(convex, e.vertices.size());
}

TEST(Patterns, DoNotDependOnThreads) {
  const Explored e(random_fragment(3, 120));
  std::vector<std::vector<VertexSet>> first;
  for (const std::size_t threads : {1U, 2U, 8U}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    std::vector<std::vector<VertexSet>> found;
    for (const auto& list : generate_patterns(e.vertices, e.evaluator, {})) {
      found.emplace_back();
      for (const Pattern& pattern : list) found.back().push_back(pattern.vertices);
    }
    if (first.empty()) first = found;
    EXPECT_EQ(found, first) << threads;
  }
}

TEST(Patterns, TheBestOfSoftmaxIsAllOfIt) {
  const Explored e(softmax(4096, 1024));
  const auto patterns = generate_patterns(e.vertices, e.evaluator, {});
  EXPECT_EQ(patterns[0].front().vertices.count(), 5);
}

}  // namespace
}  // namespace stitch::search::test
