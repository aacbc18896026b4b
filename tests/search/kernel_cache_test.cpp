#include "search/schedule/kernel_cache.h"
#include "kernel/program/traffic.h"

#include <gtest/gtest.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <stop_token>

#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

/// a·x - y with its parameters in this order.
Graph difference(const std::vector<int>& order) {
  Builder b;
  std::vector<Value> parameters(3);
  for (const int i : order) parameters[i] = b.parameter(i == 2 ? DType::bf16 : DType::f32, {i == 0 ? 1 : 4096});
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
      const std::size_t own = entry->parameter_order[i];
      EXPECT_EQ(canonical.node(canonical.parameters()[i]).type(), graph.node(graph.parameters()[own]).type());
    }
    ASSERT_EQ(entry->result_order.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const Value own = graph.results()[entry->result_order[i]];
      EXPECT_EQ(canonical.node(canonical.results()[i].node).op, graph.node(own.node).op);
    }
  }
  EXPECT_EQ(kernels.size(), 1U);
  EXPECT_EQ(cache.size(), 1U);
  ASSERT_TRUE(cache.explore(softmax(64, 300)));
  ASSERT_TRUE(cache.explore(softmax(64, 301)));
  EXPECT_EQ(cache.size(), 3U);
}

/// Has the exploring stopped when it is asked for the first prediction.
class StoppingScorer final : public Scorer {
 public:
  explicit StoppingScorer(std::stop_source& source) : source_(source) {}
  [[nodiscard]] double predict_us(const Graph& graph, const kernel::KernelProgram& program) const override {
    ++asked;
    source_.request_stop();
    return rough_.predict_us(graph, program);
  }
  [[nodiscard]] Score explain(const Graph& graph, const kernel::KernelProgram& program) const override {
    return rough_.explain(graph, program);
  }
  [[nodiscard]] const DeviceSpec& device() const override { return rough_.device(); }

  mutable std::atomic<int> asked = 0;

 private:
  std::stop_source& source_;
  RoughScorer rough_;
};

TEST(KernelCache, WhatWasStoppedIsNotRemembered) {
  std::stop_source source;
  const StoppingScorer scorer(source);
  KernelCache cache(scorer, {});
  const Graph graph = softmax(64, 300);
  const auto stopped = cache.explore(graph, source.get_token());
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::cancelled) << stopped.error().message;
  EXPECT_EQ(cache.size(), 0U);
  const int asked = scorer.asked;
  const auto whole = cache.explore(graph);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_TRUE(whole->kernel->feasible());
  EXPECT_GT(scorer.asked, 2 * asked) << "it was stopped long before the end";
}

/// gain · (x − mean) · rsqrt(variance), mean and variance of each column.
Graph batch_norm(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value gain = b.parameter(DType::f32, {columns}), x = b.parameter(DType::f32, dims);
  const Value share = b.filled(DType::f32, {columns}, 1.0 / rows);
  const Value mean = b.binary(Op::multiply, b.reduce(ReduceKind::sum, x, {0}), share);
  const Value centred = b.binary(Op::subtract, x, b.broadcast(mean, dims, {1}));
  const Value variance = b.reduce(ReduceKind::sum, b.binary(Op::multiply, centred, centred), {0});
  const Value scale = b.binary(Op::multiply, gain, b.unary(Op::rsqrt, b.binary(Op::multiply, variance, share)));
  return finished(b, {b.binary(Op::multiply, centred, b.broadcast(scale, dims, {1}))});
}

TEST(KernelCache, ReadsLongRowsOnceForMeanAndVariance) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const Graph graph = batch_norm(200704, 256);
  const double whole = graph.node(graph.parameters()[1]).type().bytes();
  for (int i = 0; i < 2; ++i) {
    const auto entry = cache.explore(graph);
    ASSERT_TRUE(entry) << entry.error().message;
    const ExploredKernel& kernel = *entry->kernel;
    ASSERT_TRUE(kernel.feasible());
    // Two readings and one writing instead of three and one, less what blocks retain, of slabs all; a hundredth for the
    // tiles' results.
    const kernel::KernelProgram& program = kernel.candidates.front().program;
    const double bytes = kernel::scheduled_bytes(kernel.graph, program);
    EXPECT_LT(bytes, 3.05 * whole);
    EXPECT_GE(bytes, 3 * whole - program.schedule.slabs.count * 132.0 * 227e3);
    for (std::size_t p = 0; p < 2; ++p) {
      const graph::NodeId own = graph.parameters()[entry->parameter_order[p]];
      EXPECT_EQ(kernel.graph.node(kernel.graph.parameters()[p]).type(), graph.node(own).type());
    }
  }
  EXPECT_EQ(cache.size(), 1U);
  // What fits on chip is left as it is: tiles would only add to it.
  const auto held = cache.explore(batch_norm(2048, 64));
  ASSERT_TRUE(held && held->kernel->feasible());
  EXPECT_EQ(std::ranges::count_if(held->kernel->graph.nodes(), [](const auto& n) { return n.op == Op::reduce; }), 2);
}

Graph log_sum_exp(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims), top = b.reduce(ReduceKind::max, x, {1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(top, dims, {0})));
  return finished(b, {b.binary(Op::add, top, b.unary(Op::log, b.reduce(ReduceKind::sum, e, {1})))});
}

bool joins(const ExploredKernel& kernel) {
  return std::ranges::any_of(kernel.graph.nodes(), [](const auto& n) { return n.op == Op::max_exp_sum; });
}

TEST(KernelCache, ReadsLongRowsOnceForMaximumAndSum) {
  const RoughScorer scorer;
  const Graph graph = log_sum_exp(4, std::int64_t{1} << 24);
  const double whole = graph.node(graph.parameters()[0]).type().bytes();
  const auto bytes = [&](const StitchOptions& options, const Graph& of) {
    KernelCache cache(scorer, options);
    const auto entry = cache.explore(of);
    if (!entry || !entry->kernel->feasible()) throw std::runtime_error("no kernel");
    EXPECT_EQ(joins(*entry->kernel), options.join_max_and_exp_sums && !of.constraints.batch_invariant);
    return kernel::scheduled_bytes(entry->kernel->graph, entry->kernel->candidates.front().program);
  };
  EXPECT_LT(bytes({}, graph), 1.01 * whole);
  EXPECT_GT(bytes({.join_max_and_exp_sums = false}, graph), 1.5 * whole);
  Graph fixed = graph;
  fixed.constraints.batch_invariant = true;
  EXPECT_GT(bytes({}, fixed), 1.5 * whole) << "the order of a row's sum would depend on what else is computed";
}

// Where one reading does both anyway nothing is gained, and what is closer than a hundredth is as it was written.
TEST(KernelCache, LeavesRowsApartThatFitOnChip) {
  const RoughScorer scorer;
  KernelCache cache(scorer, {});
  const auto entry = cache.explore(softmax(4096, 4096));
  ASSERT_TRUE(entry && entry->kernel->feasible());
  EXPECT_FALSE(joins(*entry->kernel));
}

Graph running_sums(const Dims& dims, std::int64_t dimension) {
  Builder b;
  const Value x = b.parameter(DType::f32, dims);
  return finished(b, {b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, dimension, false, false})});
}

/// What is done by few blocks takes long, and a phase costs a little.
class BlocksScorer final : public Scorer {
 public:
  [[nodiscard]] double predict_us(const Graph&, const kernel::KernelProgram& program) const override {
    return 10 * static_cast<double>(program.phases.size()) + 1e6 / static_cast<double>(program.blocks);
  }
  [[nodiscard]] Score explain(const Graph&, const kernel::KernelProgram&) const override { return {}; }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_ = *find_device("h100");
};

TEST(KernelCache, HasManyBlocksWorkOnALongLine) {
  const BlocksScorer scorer;
  const auto blocks = [&](const StitchOptions& options, const Graph& of) {
    KernelCache cache(scorer, options);
    const auto entry = cache.explore(of);
    if (!entry || !entry->kernel->feasible()) throw std::runtime_error("no kernel");
    EXPECT_EQ(entry->parameter_order, std::vector<int>{0});
    const kernel::KernelProgram& program = entry->kernel->candidates.front().program;
    // Read twice at most, and written once; a hundredth for the totals.
    EXPECT_LT(kernel::scheduled_bytes(entry->kernel->graph, program), 3.01 * of.type(of.results()[0]).bytes());
    return program.blocks;
  };
  const Graph line = running_sums({1, 1 << 20}, 1);
  EXPECT_GE(blocks({}, line), 128);
  EXPECT_EQ(blocks({.tile_scans = false}, line), 1);
  EXPECT_LE(blocks({}, running_sums({1, 4096}, 1)), 1) << "two phases more are not worth it";
  Graph fixed = line;
  fixed.constraints.batch_invariant = true;
  EXPECT_EQ(blocks({}, fixed), 1) << "whether a line is tiled depends on how many there are";
  fixed.constraints = {.deterministic = true};
  EXPECT_GE(blocks({}, fixed), 128) << "the order follows from the shape";
}

/// Elements that test all updates take long.
class SearchScorer final : public Scorer {
 public:
  [[nodiscard]] double predict_us(const Graph&, const kernel::KernelProgram& program) const override {
    double us = 1;
    for (const kernel::PhaseProgram& phase : program.phases) {
      for (const kernel::GroupProgram& group : phase.groups) {
        const kernel::Anchor& anchor = group.structure.anchors[0];
        if (anchor.kind == kernel::Anchor::Kind::scatter) us += anchor.items.size() > 3 ? 10 : 100;
      }
    }
    return us;
  }
  [[nodiscard]] Score explain(const Graph&, const kernel::KernelProgram&) const override { return {}; }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_ = *find_device("h100");
};

TEST(KernelCache, SortsUpdatesWhereThatIsFaster) {
  const SearchScorer scorer;
  const auto sorts = [&](const StitchOptions& options, const graph::Constraints& constraints) {
    Graph graph = scattered(4096, 8, 1024);
    graph.constraints = constraints;
    KernelCache cache(scorer, options);
    const auto entry = cache.explore(graph);
    if (!entry || !entry->kernel->feasible()) throw std::runtime_error("no kernel");
    return std::ranges::any_of(entry->kernel->graph.nodes(),
                               [](const graph::Node& node) { return node.op == Op::sort; });
  };
  EXPECT_FALSE(sorts({}, {})) << "atomics test nothing";
  EXPECT_TRUE(sorts({}, {.deterministic = true}));
  EXPECT_TRUE(sorts({}, {.batch_invariant = true})) << "an element's updates and their order are the same";
  EXPECT_FALSE(sorts({.sort_updates = false}, {.deterministic = true}));
}

TEST(KernelCache, RemembersWhatFitsNoKernel) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 64});
  graph::DotAttributes dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {0};
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
