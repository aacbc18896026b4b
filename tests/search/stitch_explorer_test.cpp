#include "search/schedule/stitch_explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernel/program/legality.h"
#include "kernel/program/program_builder.h"
#include "kernel/structure/structure_builder.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

struct Example {
  std::string name;
  std::function<Graph()> graph;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

class Explored : public testing::TestWithParam<Example> {};

TEST_P(Explored, CandidatesAreLegalDistinctBestFirstAndReproducible) {
  const Graph graph = GetParam().graph();
  const RoughScorer scorer;
  const auto found = explore_stitches(graph, scorer, {500, false});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_FALSE(found->empty());
  const kernel::AxisAnalysis analysis(graph);
  for (std::size_t i = 0; i < found->size(); ++i) {
    const StitchCandidate& candidate = (*found)[i];
    EXPECT_TRUE(kernel::check_legality(candidate.program, scorer.device()));
    EXPECT_EQ(candidate.predicted_us, scorer.predict_us(graph, candidate.program));
    if (i > 0) {
      EXPECT_GE(candidate.predicted_us, (*found)[i - 1].predicted_us);
    }
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(candidate.schedule, (*found)[j].schedule);
    // A schedule is all that is kept of a candidate: the program follows from it.
    const auto structure = kernel::derive_structure(graph, analysis,
                                                    {.tile_axes = candidate.schedule.tile_axes,
                                                     .materialised = candidate.schedule.materialised,
                                                     .gathered = candidate.schedule.gathered});
    ASSERT_TRUE(structure);
    const auto program = kernel::derive_program(graph, *structure, candidate.schedule);
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(program->blocks, candidate.program.blocks);
    EXPECT_EQ(program->shared_bytes, candidate.program.shared_bytes);
    EXPECT_EQ(program->registers, candidate.program.registers);
    EXPECT_EQ(program->partial_count, candidate.program.partial_count);
  }
  // Keeping fewer keeps the best.
  const auto one = explore_stitches(graph, scorer, {1, false});
  ASSERT_EQ(one->size(), 1U);
  EXPECT_EQ(one->front().schedule, found->front().schedule);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Explored,
                         testing::Values(Example{"softmax", [] { return softmax(64, 300); }},
                                         Example{"layer_norm", [] { return layer_norm(1000, 257); }},
                                         Example{"layer_norm_backward", [] { return layer_norm_backward(512, 256); }},
                                         Example{"both_sums", [] { return row_and_column_sums(512, 256); }},
                                         Example{"scan", [] { return scanned(300, 100); }},
                                         Example{"scatter", [] { return scattered(300, 64, 40); }},
                                         Example{"atomic", [] { return scattered(4096, 8, 1024); }},
                                         Example{"update", [] { return cache_update(16, 2048, 64, true); }}),
                         [](const auto& each) { return each.param.name; });

// Sums over rows stand behind the rows' own: a cluster that holds a row reads it once, and waits for the grid.
TEST(StitchExplorer, RowsThatOutgrowABlockHaveClustersBesideSumsOverRows) {
  const RoughScorer scorer;
  const auto widest = [&](std::int64_t columns, bool clusters) {
    const Graph graph = layer_norm_backward(1024, columns);
    const auto space = explore_space(graph, scorer, {.keep = 10000});
    EXPECT_TRUE(space.ok());
    int cluster = 0;
    std::int64_t bytes = INT64_MAX;
    for (const StitchCandidate& each : space->candidates) {
      const int of = each.program.schedule.cluster;
      cluster = std::max(cluster, of);
      if (of > 1) {
        EXPECT_EQ(std::ranges::count(each.program.schedule.syncs, kernel::Sync::barrier),
                  std::ssize(each.program.phases) - 1);
      }
      if (clusters == (of > 1)) bytes = std::min(bytes, kernel::scheduled_bytes(graph, each.program));
    }
    return std::pair(cluster, static_cast<double>(bytes) / static_cast<double>(kernel::kernel_bytes(graph)));
  };
  EXPECT_EQ(widest(8192, false).first, 1) << "a block holds both tensors' rows, and the sums of all columns";
  EXPECT_GT(widest(16384, true).first, 1) << "rows alone would fit, the sums do not fit beside them";
  const auto [cluster, share] = widest(65536, true);
  EXPECT_GT(cluster, 1);
  EXPECT_LE(share, 1.1);
  EXPECT_GE(widest(65536, false).second, 1.5) << "there was no need for clusters";
}

TEST(StitchExplorer, WideIsNeverWorse) {
  const RoughScorer scorer;
  for (const Graph& graph : {softmax(64, 8192), layer_norm_backward(512, 256), scattered(4096, 8, 1024)}) {
    const auto usual = explore_stitches(graph, scorer, {1, false}), wide = explore_stitches(graph, scorer, {1, true});
    ASSERT_TRUE(usual && wide);
    EXPECT_LE(wide->front().predicted_us, usual->front().predicted_us);
  }
}

class RandomKernel : public testing::TestWithParam<int> {};

TEST_P(RandomKernel, HasASchedule) {
  graph::test::RandomGraphOptions options;
  options.seed = GetParam();
  options.operators = 8;
  options.arg_reduce = 1;
  options.scan = 1;
  options.reduce_window = 1;
  const Graph graph = graph::test::random_graph(options);
  const RoughScorer scorer;
  const auto found = explore_stitches(graph, scorer, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(kernel::check_legality(found->front().program, scorer.device()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomKernel, testing::Range(1, 41));

struct Impossible {
  std::string name;
  std::function<Graph()> graph;
  std::string message;
};

void PrintTo(const Impossible& impossible, std::ostream* out) { *out << impossible.name; }

class NoSchedule : public testing::TestWithParam<Impossible> {};

TEST_P(NoSchedule, SaysWhy) {
  const auto found = explore_stitches(GetParam().graph(), RoughScorer(), {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::constraint);
  EXPECT_THAT(found.error().message, testing::HasSubstr(GetParam().message));
}

Graph contraction() {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 64});
  graph::DotAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
  return finished(b, {b.dot(x, x, dot)});
}

Graph large_window() {
  Builder b;
  graph::ReduceWindowAttributes window;
  window.sizes = {129};
  window.strides = {1};
  window.low = {0};
  window.high = {0};
  window.base_dilation = {1};
  window.window_dilation = {1};
  return finished(b, {b.add(Op::reduce_window, {b.parameter(DType::f32, {1000})}, window)});
}

Graph nothing() {
  Builder b;
  const Value x = b.parameter(DType::f32, {100});
  b.unary(Op::tanh, x);
  return finished(b, {});
}

INSTANTIATE_TEST_SUITE_P(Kernels, NoSchedule,
                         testing::Values(Impossible{"contraction", contraction,
                                                    "dot cannot be computed inside a kernel"},
                                         Impossible{"large_window", large_window, "window of 129 elements"},
                                         Impossible{"no_results", nothing, "the kernel stores nothing"}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::search::test
