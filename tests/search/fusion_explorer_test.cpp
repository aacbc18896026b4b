#include "search/partition/fusion_explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <functional>
#include <numeric>

#include "base/random.h"
#include "graph/simplify.h"
#include "tests/graph/edge_graph.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"
#include "tests/kernel/recurrent_graphs.h"
#include "tests/search/exhaustive_partition.h"
#include "tests/search/plan_checks.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

Graph random_fragment(std::uint64_t seed) {
  graph::test::RandomGraphOptions options;
  options.seed = seed;
  options.operators = 10 + seed % 3 * 6;
  options.parameters = 2 + seed % 4;
  options.scan = seed % 2;
  options.arg_reduce = 1;
  options.reduce_window = seed % 2;
  if (seed % 5 == 0) options.dtypes = {DType::f32, DType::bf16, DType::s32};
  return graph::test::random_graph(options);
}

// ---- every plan ---------------------------------------------------------------------------------------------------

class RandomPlan : public testing::TestWithParam<int> {};

TEST_P(RandomPlan, IsRunnableCompleteAndAsFastAsUnfused) {
  const std::uint64_t seed = GetParam();
  const Graph fragment = random_fragment(seed);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto unfused = unfused_plan(fragment, cache);
  ASSERT_TRUE(unfused) << unfused.error().message;
  const auto fused = explore_fusion(fragment, cache, {});
  ASSERT_TRUE(fused) << fused.error().message;
  const std::vector<graph::Tensor> arguments = graph::test::random_arguments(fragment, seed);
  for (const FusionPlan* plan : {&*unfused, &*fused}) {
    check_plan(fragment, *plan);
    check_values(fragment, *plan, arguments);
  }
  EXPECT_EQ(unfused->kernels.size(), static_cast<std::size_t>(VertexGraph(fragment).size()));
  EXPECT_LE(fused->cost_us(), unfused->cost_us() + 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlan, testing::Range(1, 31));

// Shapes without elements, updates of nothing, values at the ends of their types: a plan or a reason, never a crash.
TEST(EdgePlan, IsRunnableOrRefused) {
  int plans = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Graph fragment = graph::test::edge_graph(seed);
    for (const bool simplified : {false, true}) {
      if (simplified) {
        ASSERT_TRUE(graph::simplify(fragment));
      }
      const RoughScorer scorer;
      KernelCache cache(scorer, {});
      const auto plan = explore_fusion(fragment, cache, {});
      if (!plan) {
        EXPECT_EQ(plan.error().kind, ErrorKind::constraint) << "seed " << seed << ": " << plan.error().message;
      } else if (simplified) {
        ++plans;
        check_plan(fragment, *plan);
      }
    }
  }
  EXPECT_GT(plans, 290);
}

// Windows of any size, alone and as the gradient of pooling.
TEST(WindowPlan, IsFoundForEverySize) {
  for (const std::int64_t size : {2, 3, 5, 8, 15}) {
    for (const std::int64_t stride : {std::int64_t{1}, size / 2, size}) {
      const std::int64_t extent = 4 * size, count = (extent - size) / stride + 1;
      const Dims dims = {2, extent, extent, 3}, sizes = {1, size, size, 1}, strides = {1, stride, stride, 1};
      const Dims none(4, 0), ones(4, 1);
      Builder b;
      const Value x = b.parameter(DType::f32, dims), source = b.parameter(DType::f32, {2, count, count, 3});
      const auto windows = [&](ReduceKind kind) {
        const graph::ReduceWindowAttributes a{kind, sizes, strides, none, none, ones, ones};
        return b.add(Op::reduce_window, {x}, a);
      };
      const graph::SelectAndScatterAttributes a{ReduceKind::max, sizes, strides, none, none};
      Graph fragment = finished(
          b, {windows(ReduceKind::max), windows(ReduceKind::sum), b.add(Op::select_and_scatter, {x, source}, a)});
      ASSERT_TRUE(graph::simplify(fragment));
      const RoughScorer scorer;
      KernelCache cache(scorer, {});
      const auto plan = explore_fusion(fragment, cache, {});
      ASSERT_TRUE(plan) << size << "×" << size << " by " << stride << ": " << plan.error().message;
      check_plan(fragment, *plan);
    }
  }
}

class RandomPartition : public testing::TestWithParam<int> {};

// Any partition without cycles is a plan with the same values; one with cycles is refused.
TEST_P(RandomPartition, IsAPlanOrACircle) {
  const std::uint64_t seed = GetParam();
  const Graph fragment = random_fragment(seed);
  const VertexGraph vertices(fragment);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  Random random(seed);
  std::vector<VertexSet> parts(3, VertexSet(vertices.size()));
  for (int v = 0; v < vertices.size(); ++v) parts[random.below(3)].insert(v);
  std::erase_if(parts, [](const VertexSet& part) { return part.count() == 0; });
  const auto plan = plan_of_partition(vertices, parts, cache);
  if (plan) {
    EXPECT_EQ(plan->kernels.size(), parts.size());
    check_plan(fragment, *plan);
    check_values(fragment, *plan, graph::test::random_arguments(fragment, seed));
  } else {
    EXPECT_EQ(plan.error().kind, ErrorKind::constraint);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPartition, testing::Range(1, 21));

// ---- options ------------------------------------------------------------------------------------------------------

struct Setting {
  std::string name;
  FusionOptions options;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

std::vector<Setting> settings() {
  std::vector<Setting> list(6);
  list[0].name = "narrow";
  list[0].options.beam_width = 1;
  list[0].options.patterns.per_vertex = 1;
  list[1].name = "wide";
  list[1].options.beam_width = 8;
  list[1].options.patterns.per_vertex = 6;
  list[2].name = "no_packing";
  list[2].options.packing = false;
  list[3].name = "no_refinement";
  list[3].options.refine = false;
  list[4].name = "small_patterns";
  list[4].options.patterns.max_vertices = 2;
  list[5].name = "free_launches";
  list[5].options.delta = DeltaModel{1e-6, 0, 0, 0, 1e6};
  return list;
}

class FusionSetting : public testing::TestWithParam<Setting> {};

TEST_P(FusionSetting, StillGivesRunnablePlans) {
  for (const std::uint64_t seed : {101U, 102U, 103U, 104U}) {
    const Graph fragment = random_fragment(seed);
    const RoughScorer scorer;
    KernelCache cache(scorer, {});
    const auto plan = explore_fusion(fragment, cache, GetParam().options);
    ASSERT_TRUE(plan) << plan.error().message;
    check_plan(fragment, *plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, FusionSetting, testing::ValuesIn(settings()),
                         [](const auto& each) { return each.param.name; });

// ---- determinism --------------------------------------------------------------------------------------------------

class PlanDeterminism : public testing::TestWithParam<int> {};

TEST_P(PlanDeterminism, ThreadsAndRepetitionChangeNothing) {
  graph::test::RandomGraphOptions options;
  options.seed = GetParam();
  options.operators = 30;
  options.parameters = 5;
  const Graph fragment = graph::test::random_graph(options);
  const RoughScorer scorer;
  std::string first;
  for (const std::size_t threads : {1U, 2U, 8U, 8U, 2U}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    KernelCache cache(scorer, {});
    const auto plan = explore_fusion(fragment, cache, {});
    ASSERT_TRUE(plan) << plan.error().message;
    const std::string text = to_text(*plan);
    if (first.empty()) first = text;
    EXPECT_EQ(text, first) << threads << " threads";
  }
  // A cache that already knows the kernels changes nothing either.
  KernelCache cache(scorer, {});
  for (int run = 0; run < 2; ++run) EXPECT_EQ(to_text(*explore_fusion(fragment, cache, {})), first);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanDeterminism, testing::Range(1, 5));

// ---- plans that can be told beforehand ----------------------------------------------------------------------------

struct Known {
  std::string name;
  std::function<Graph()> graph;
  std::size_t vertices;
  std::size_t kernels;
};

void PrintTo(const Known& known, std::ostream* out) { *out << known.name; }

/// `count` vectors of a length each, added to themselves.
Graph independent(int count) {
  Builder b;
  std::vector<Value> results;
  for (int i = 0; i < count; ++i) {
    const Value x = b.parameter(DType::f32, {1000 + 4 * i});
    results.push_back(b.binary(Op::add, x, x));
  }
  return finished(b, results);
}

/// A long chain of element-wise operators.
Graph chain(int length) {
  Builder b;
  Value x = b.parameter(DType::f32, {4096});
  for (int i = 0; i < length; ++i) x = b.unary(i % 2 == 0 ? Op::tanh : Op::exp, x);
  return finished(b, {x});
}

/// x → a → (b, c) → d: a and d together without b and c would be a circle.
Graph diamond() {
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 16});
  const Value a = b.unary(Op::tanh, x);
  return finished(b, {b.binary(Op::add, b.unary(Op::exp, a), b.unary(Op::negate, a))});
}

std::vector<Known> known_plans() {
  return {
      {"softmax", [] { return softmax(64, 300); }, 5, 1},
      {"layer_norm", [] { return layer_norm(64, 256); }, 9, 1},
      {"layer_norm_backward", [] { return layer_norm_backward(4096, 256); }, 11, 1},
      {"row_and_column_sums", [] { return row_and_column_sums(4096, 1024); }, 2, 1},
      {"chain", [] { return chain(20); }, 20, 1},
      {"diamond", diamond, 4, 1},
      {"independent_ones_are_packed", [] { return independent(12); }, 12, 1},
      {"update_in_place", [] { return cache_update(16, 2048, 64, true); }, 2, 1},
  };
}

class KnownPlan : public testing::TestWithParam<Known> {};

// Two microseconds a launch: whatever may be one kernel should be.
TEST_P(KnownPlan, HasTheKernelsItShould) {
  const Graph fragment = GetParam().graph();
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = explore_fusion(fragment, cache, {});
  ASSERT_TRUE(plan) << plan.error().message;
  check_plan(fragment, *plan);
  EXPECT_EQ(plan->kernels.size(), GetParam().kernels) << to_text(*plan);
  const auto unfused = unfused_plan(fragment, cache);
  ASSERT_TRUE(unfused);
  EXPECT_EQ(unfused->kernels.size(), GetParam().vertices);
}

INSTANTIATE_TEST_SUITE_P(Plans, KnownPlan, testing::ValuesIn(known_plans()),
                         [](const auto& each) { return each.param.name; });

TEST(FusionExplorer, PacksIndependentKernelsOnlyWhenAsked) {
  const Graph fragment = independent(5);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  FusionOptions options;
  options.packing = false;
  EXPECT_EQ(explore_fusion(fragment, cache, options)->kernels.size(), 5U);
  options.packing = true;
  EXPECT_EQ(explore_fusion(fragment, cache, options)->kernels.size(), 1U);
}

TEST(FusionExplorer, RefinementMergesWhatThePatternsLeft) {
  const Graph fragment = chain(20);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  FusionOptions options;
  options.patterns.max_vertices = 2;  // too small for the whole to be tried at once
  options.refine = false;
  const auto pairs = explore_fusion(fragment, cache, options);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->kernels.size(), 10U);
  options.refine = true;
  const auto merged = explore_fusion(fragment, cache, options);
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->kernels.size(), 1U);
}

// Was a stack overflow: everything in one kernel, whose operators index propagation descends.
TEST(FusionExplorer, AVeryLongChainIsSeveralKernels) {
  const Graph fragment = chain(6000);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = explore_fusion(fragment, cache, {});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_GT(plan->kernels.size(), 1U);
  EXPECT_LT(plan->kernels.size(), 12U);
}

TEST(FusionExplorer, TheFullModelChoosesAmongPlans) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  FusionOptions options;
  options.patterns.max_vertices = 2;  // pairs against everything at once
  options.refine = false;
  const auto plan = explore_fusion(diamond(), cache, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->kernels.size(), 1U);
}

TEST(FusionExplorer, FindsTheBestPartitionOfSmallFragments) {
  const RoughScorer scorer;
  for (const std::function<Graph()>& make : std::vector<std::function<Graph()>>{
           diamond, [] { return softmax(64, 300); }, [] { return independent(4); }, [] { return scanned(64, 256); }}) {
    const Graph fragment = make();
    KernelCache cache(scorer, {});
    const auto best = best_partition(VertexGraph(fragment), cache);
    const auto plan = explore_fusion(fragment, cache, {});
    ASSERT_TRUE(best && plan);
    EXPECT_NEAR(plan->cost_us(), best->predicted_us, 1e-9);
  }
}

TEST(FusionExplorer, NothingToComputeIsAnEmptyPlan) {
  Builder b;
  const Value x = b.parameter(DType::f32, {0, 4});
  const Graph fragment = finished(b, {b.unary(Op::negate, x)});
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = explore_fusion(fragment, cache, {});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->kernels.empty());
  EXPECT_EQ(plan->predicted_us, 0);
}

TEST(FusionExplorer, NamesTheOperatorThatFitsNoKernel) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 64});
  graph::DotAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
  b.at("product");
  const Value product = b.dot(b.unary(Op::tanh, x), x, dot);
  b.at("after");
  const Graph fragment = finished(b, {b.unary(Op::exp, product)});
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = explore_fusion(fragment, cache, {});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::constraint);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("dot 'product'"));
}

TEST(FusionExplorer, ALoopIsAKernelBesideOthers) {
  // The loop cannot be joined with what reads it; what reads it twice can.
  const Graph fragment = gru_and({}, [](Builder& b, const std::vector<Value>& results) {
    const Value all = b.unary(Op::exp, results[0]);
    return std::vector<Value>{results[1], b.reduce(ReduceKind::sum, all, {2}), all};
  });
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = explore_fusion(fragment, cache, {});
  ASSERT_TRUE(plan) << plan.error().message;
  check_plan(fragment, *plan);
  ASSERT_EQ(plan->kernels.size(), 2U);
  EXPECT_NE(plan->kernels[0].kernel->candidates.front().program.recurrent, nullptr);
  EXPECT_EQ(plan->kernels[1].kernel->candidates.front().program.recurrent, nullptr);
}

TEST(FusionExplorer, ALoopThatIsNoKernelIsRefusedWithTheReason) {
  LoopBuilder l({});
  const Value h = l.carry(l.outside.parameter(DType::f32, {12, 8}));
  l.hand_on(h, l.inside.reverse(h, {0, 1}));
  l.want(h);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = explore_fusion(l.finish(), cache, {});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::constraint);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("mixes rows"));
}

TEST(FusionExplorer, CirclesAreRefused) {
  const Graph fragment = diamond();
  const VertexGraph vertices(fragment);
  VertexSet ends(4), middle(4);
  ends.insert(0);
  ends.insert(3);
  middle.insert(1);
  middle.insert(2);
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto plan = plan_of_partition(vertices, {ends, middle}, cache);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::constraint);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("circle"));
}

}  // namespace
/// Every operator beyond the first costs more than a launch: nothing is worth fusing.
class DearFusion final : public Scorer {
 public:
  double predict_us(const Graph& graph, const kernel::KernelProgram&) const override {
    double operators = 0;
    for (const graph::Node& node : graph.nodes()) operators += node.op == Op::parameter ? 0 : 1;
    return 1 + operators * operators;
  }
  Score explain(const Graph&, const kernel::KernelProgram&) const override { return {}; }
  const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_ = *find_device("h100");
};
TEST(FusionExplorer, WhatIsNotWorthFusingStaysApart) {
  Builder b;
  Value x = b.parameter(DType::f32, {4096});
  for (int i = 0; i < 6; ++i) x = b.unary(i % 2 == 0 ? Op::tanh : Op::exp, x);
  const Graph fragment = finished(b, {x});
  const DearFusion scorer;
  KernelCache cache(scorer, {});
  const auto fused = explore_fusion(fragment, cache, {});
  const auto unfused = unfused_plan(fragment, cache);
  ASSERT_TRUE(fused && unfused);
  EXPECT_LE(fused->cost_us(), unfused->cost_us());
}

}  // namespace stitch::search::test
