// A product over a batch in halves, with what leads to it.
#include "tuning/programs/batch_halves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/verify.h"
#include "tests/graph/pass_case.h"

namespace stitch::tuning {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

const graph::DotAttributes weighted = {{0}, {0}, {2}, {1}, DType::f32};

Value softmax(Builder& b, Value x) {
  const Dims dims = b.dims(x);
  const Value greatest = b.broadcast(b.reduce(ReduceKind::max, x, {2}), dims, {0, 1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, greatest));
  return b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {2}), dims, {0, 1}));
}

NodeId last_dot(const Graph& graph) {
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (graph.node(id).op == Op::dot) return id;
  }
  return -1;
}

/// How many values of these extents a graph computes.
std::ptrdiff_t computed(const Graph& graph, const Dims& dims) {
  return std::ranges::count_if(graph.nodes(), [&](const graph::Node& node) {
    return node.op != Op::parameter && node.op != Op::constant && node.results.size() == 1 && node.type().dims == dims;
  });
}

Graph halved(const Graph& graph) {
  const auto result = halve_batch(graph, last_dot(graph));
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message);
  if (!result) return graph;
  EXPECT_TRUE(graph::verify(*result).ok());
  for (const std::uint64_t seed : {1, 2}) graph::test::expect_same_values(graph, *result, seed, 0, "halved");
  return *result;
}

/// Heads of attention over `batch`: scores, a mask of their columns, softmax, and its product with the values.
Graph heads(std::int64_t batch, bool weights_wanted) {
  Builder b;
  const Value q = b.parameter(DType::f32, {batch, 4, 8}, "q"), k = b.parameter(DType::f32, {batch, 6, 8}, "k");
  const Value v = b.parameter(DType::f32, {batch, 6, 8}, "v"), limit = b.parameter(DType::f32, {}, "limit");
  const Value scores = b.dot(q, k, {{0}, {0}, {2}, {2}, DType::f32});
  const Dims dims = b.dims(scores);
  const Value column = b.convert(b.iota(DType::s32, {6}, 0), DType::f32);
  const Value allowed = b.compare(graph::Comparison::le, column, b.broadcast(limit, {6}, {}));
  const Value masked =
      b.select(b.broadcast(allowed, dims, {2}), b.unary(Op::tanh, scores), b.filled(DType::f32, dims, -4));
  const Value weights = softmax(b, masked);
  std::vector<Value> results = {b.dot(weights, v, weighted)};
  if (weights_wanted) results.push_back(weights);
  return *b.finish(results);
}

TEST(BatchHalvesTest, WhatLeadsToAProductIsHalvedToo) {
  for (const std::int64_t batch : {2, 5, 8}) {
    SCOPED_TRACE(batch);
    const Graph graph = halved(heads(batch, false));
    EXPECT_EQ(computed(graph, {batch, 4, 6}), 1) << "the scores, which are a library's";
    EXPECT_GT(computed(graph, {(batch + 1) / 2, 4, 6}), 1);
  }
}

TEST(BatchHalvesTest, WhatOthersNeedStaysWhole) {
  const Graph before = heads(8, true), after = halved(before);
  EXPECT_EQ(computed(after, {8, 4, 6}), computed(before, {8, 4, 6}));
  EXPECT_EQ(computed(after, {4, 4, 6}), 2) << "slices of the weights";
}

TEST(BatchHalvesTest, LayoutsAreFollowedAsFarAsTheyGo) {
  Builder b;
  const Value x = b.parameter(DType::f32, {6, 4, 3, 5}, "x"), y = b.parameter(DType::f32, {12, 5, 2}, "y");
  // The batch of twelve is 4 × 3 there, of which neither half is a part of one dimension.
  const Value merged = b.reshape(b.transpose(b.unary(Op::exp, x), {1, 2, 0, 3}), {12, 6, 5});
  const Graph whole = halved(*b.finish({b.dot(b.unary(Op::tanh, merged), y, weighted)}));
  EXPECT_EQ(computed(whole, {12, 6, 5}), 1) << "the reshape";
  Builder c;
  const Value z = c.parameter(DType::f32, {6, 4, 15}, "z"), w = c.parameter(DType::f32, {4, 5, 2}, "w");
  const Value split = c.transpose(c.reshape(c.unary(Op::exp, z), {6, 4, 3, 5}), {1, 0, 2, 3});
  const Value of = c.reduce(ReduceKind::sum, split, {2});
  const Graph through = halved(*c.finish({c.dot(of, w, weighted)}));
  EXPECT_EQ(computed(through, {4, 6, 5}) + computed(through, {4, 6, 3, 5}) + computed(through, {6, 4, 15}), 0);
}

TEST(BatchHalvesTest, AValueBothWholeAndInHalves) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4, 6, 5}, "x"), v = b.parameter(DType::f32, {4, 5, 3}, "v");
  const Value e = b.unary(Op::exp, x);
  const Value of_all = b.reduce(ReduceKind::sum, e, {0, 1, 2});
  const Value weights = b.binary(Op::divide, e, b.broadcast(of_all, {4, 6, 5}, {}));
  const Graph graph = halved(*b.finish({b.dot(weights, v, weighted)}));
  EXPECT_EQ(computed(graph, {4, 6, 5}), 1) << "what is summed over the batch";
}

TEST(BatchHalvesTest, WhatHasNoBatchIsRefused) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4, 5}, "x"), y = b.parameter(DType::f32, {5, 4}, "y");
  const Graph graph = *b.finish({b.dot(x, y, {{}, {}, {1}, {0}, DType::f32})});
  for (const NodeId id : {0, 2, 3, -1}) {
    const auto result = halve_batch(graph, id);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
  }
}

}  // namespace
}  // namespace stitch::tuning
