#include "search/kernel_cache.h"

#include <gtest/gtest.h>
#include <oneapi/tbb/parallel_for.h>

#include <mutex>
#include <set>

#include "tests/search/example_graphs.h"

namespace stitch::search::test {
namespace {

/// a·x - y with its parameters in this order.
Graph difference(const std::vector<int>& order) {
  Builder b;
  std::vector<Value> parameters(3);
  for (const int i : order)
    parameters[static_cast<std::size_t>(i)] = b.parameter(i == 2 ? DType::bf16 : DType::f32, {i == 0 ? 1 : 4096});
  const Value scaled = b.binary(Op::multiply, b.broadcast(b.reshape(parameters[0], {}), {4096}, {}), parameters[1]);
  return finished(b, {b.binary(Op::subtract, scaled, b.convert(parameters[2], DType::f32)), b.unary(Op::tanh, scaled)});
}

TEST(KernelCache, SharesKernelsThatDifferInArgumentOrder) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  std::set<const ExploredKernel*> kernels;
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}}) {
    const Graph graph = difference(order);
    const auto entry = cache.explore(graph);
    ASSERT_TRUE(entry) << entry.error().message;
    kernels.insert(entry->kernel.get());
    const Graph& canonical = entry->kernel->graph;
    ASSERT_EQ(entry->parameter_order.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto own = static_cast<std::size_t>(entry->parameter_order[i]);
      EXPECT_EQ(canonical.node(canonical.parameters()[i]).type(), graph.node(graph.parameters()[own]).type());
    }
    ASSERT_EQ(entry->result_order.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const Value own = graph.results()[static_cast<std::size_t>(entry->result_order[i])];
      EXPECT_EQ(canonical.node(canonical.results()[i].node).op, graph.node(own.node).op);
    }
  }
  EXPECT_EQ(kernels.size(), 1U);
  EXPECT_EQ(cache.size(), 1U);
  ASSERT_TRUE(cache.explore(softmax(64, 300)));
  ASSERT_TRUE(cache.explore(softmax(64, 301)));
  EXPECT_EQ(cache.size(), 3U);
}

TEST(KernelCache, RemembersWhatFitsNoKernel) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 64});
  graph::DotAttributes dot;
  dot.lhs_contracting = {1}, dot.rhs_contracting = {0};
  const Graph graph = finished(b, {b.dot(x, x, dot)});
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  for (int i = 0; i < 2; ++i) {
    const auto entry = cache.explore(graph);
    ASSERT_TRUE(entry);
    EXPECT_FALSE(entry->kernel->feasible());
    EXPECT_EQ(entry->kernel->why.kind, ErrorKind::constraint);
  }
  EXPECT_EQ(cache.size(), 1U);
}

TEST(KernelCache, ThreadsThatMissTogetherGetOneKernel) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const Graph graph = softmax(64, 300);
  std::mutex mutex;
  std::set<const ExploredKernel*> kernels;
  tbb::parallel_for(0, 16, [&](int) {
    const auto entry = cache.explore(graph);
    const std::lock_guard lock(mutex);
    kernels.insert(entry->kernel.get());
  });
  EXPECT_EQ(kernels.size(), 1U);
  EXPECT_EQ(cache.size(), 1U);
}

}  // namespace
}  // namespace stitch::search::test
