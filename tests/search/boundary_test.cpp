#include "search/partition/boundary.h"

#include <gtest/gtest.h>

#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

VertexSet set_of(const VertexGraph& vertices, const std::vector<Value>& values) {
  VertexSet set(vertices.size());
  for (const Value value : values) set.insert(vertices.vertex_of(value.node));
  return set;
}

/// The first of the least divisions, or the one there is.
std::pair<VertexSet, VertexSet> best_boundary(const VertexGraph& vertices, const VertexSet& first,
                                              const VertexSet& second) {
  auto divisions = best_boundaries(vertices, first, second);
  return divisions.empty() ? std::pair(first, second) : std::move(divisions[0]);
}

// A gradient's norm, then an update by it: m' = 0.9·m needs no norm, but computed beside it, it is written and read.
struct NormThenUpdate {
  Graph graph;
  Value square, sum, decayed, scaled, next;
};

NormThenUpdate norm_then_update() {
  Builder b;
  const Dims dims = {1 << 20};
  const Value g = b.parameter(DType::f32, dims), m = b.parameter(DType::f32, dims);
  NormThenUpdate made;
  made.square = b.binary(Op::multiply, g, g);
  made.sum = b.reduce(ReduceKind::sum, made.square, {0});
  made.decayed = b.binary(Op::multiply, m, b.filled(DType::f32, dims, 0.9));
  made.scaled = b.binary(Op::divide, g, b.broadcast(made.sum, dims, {}));
  made.next = b.binary(Op::add, made.decayed, made.scaled);
  made.graph = finished(b, {made.next});
  return made;
}

TEST(Boundary, WhatOnlyTheSecondKernelNeedsMovesThere) {
  const NormThenUpdate each = norm_then_update();
  const VertexGraph vertices(each.graph);
  const VertexSet first = set_of(vertices, {each.square, each.sum, each.decayed});
  const VertexSet second = set_of(vertices, {each.scaled, each.next});
  const auto [before, after] = best_boundary(vertices, first, second);
  EXPECT_EQ(before, set_of(vertices, {each.square, each.sum}));
  EXPECT_EQ(after, set_of(vertices, {each.decayed, each.scaled, each.next}));
}

TEST(Boundary, ABestDivisionIsLeftAlone) {
  const NormThenUpdate each = norm_then_update();
  const VertexGraph vertices(each.graph);
  const VertexSet first = set_of(vertices, {each.square, each.sum});
  const VertexSet second = set_of(vertices, {each.decayed, each.scaled, each.next});
  const auto [before, after] = best_boundary(vertices, first, second);
  EXPECT_EQ(before, first);
  EXPECT_EQ(after, second);
}

TEST(Boundary, WhatCostsTheSameInEitherKernelIsOfferedInBoth) {
  Builder b;
  const Dims dims = {1 << 20};
  const Value g = b.parameter(DType::f32, dims), m = b.parameter(DType::f32, dims);
  const Value square = b.binary(Op::multiply, g, g), sum = b.reduce(ReduceKind::sum, square, {0});
  const Value norm = b.unary(Op::sqrt, sum);
  const Value decayed = b.binary(Op::multiply, m, b.filled(DType::f32, dims, 0.9));
  const Value next = b.binary(Op::add, decayed, b.binary(Op::divide, g, b.broadcast(norm, dims, {})));
  const Graph graph = finished(b, {next});
  const VertexGraph vertices(graph);
  const Value scaled = graph.node(next.node).operands[1];
  const auto divisions =
      best_boundaries(vertices, set_of(vertices, {square, sum, norm, decayed}), set_of(vertices, {scaled, next}));
  ASSERT_EQ(divisions.size(), 2U);
  EXPECT_EQ(divisions[0].first, set_of(vertices, {square, sum}));
  EXPECT_EQ(divisions[0].second, set_of(vertices, {norm, decayed, scaled, next}));
  EXPECT_EQ(divisions[1].first, set_of(vertices, {square, sum, norm}));
  EXPECT_EQ(divisions[1].second, set_of(vertices, {decayed, scaled, next}));
}

TEST(Boundary, ReductionsStayWhereTheyAre) {
  // Handing over the sum of a row instead of the row would be cheaper, but the sum is why there is a second kernel.
  Builder b;
  const Value x = b.parameter(DType::f32, {1024, 1024});
  const Value e = b.unary(Op::exp, x), sum = b.reduce(ReduceKind::sum, e, {1}), log = b.unary(Op::log, sum);
  const Graph graph = finished(b, {log});
  const VertexGraph vertices(graph);
  const auto [before, after] = best_boundary(vertices, set_of(vertices, {e}), set_of(vertices, {sum, log}));
  EXPECT_EQ(before, set_of(vertices, {}));  // the exponential goes to its reduction
  EXPECT_EQ(after, set_of(vertices, {e, sum, log}));
}

TEST(Boundary, AWideningOperatorIsHandedOverNarrow) {
  Builder b;
  const Dims dims = {1 << 20};
  const Value x = b.parameter(DType::f32, dims);
  const Value sum = b.reduce(ReduceKind::sum, x, {0});
  const Value tanh = b.unary(Op::tanh, b.binary(Op::add, x, b.broadcast(sum, dims, {})));
  const Value half = b.convert(tanh, DType::bf16), wide = b.convert(half, DType::f32);
  const Value total = b.reduce(ReduceKind::sum, wide, {0});
  const Value scaled = b.binary(Op::divide, wide, b.broadcast(total, dims, {}));
  const Graph graph = finished(b, {scaled});
  const VertexGraph vertices(graph);
  const auto vertex_values = [&](const std::vector<Value>& values) { return set_of(vertices, values); };
  const Value added{graph.node(tanh.node).operands[0]};
  const auto [before, after] =
      best_boundary(vertices, vertex_values({sum, added, tanh, half, wide, total}), vertex_values({scaled}));
  EXPECT_TRUE(before.contains(vertices.vertex_of(half.node)));
  // `wide` feeds the reduction of the first kernel and stays; what crosses is no more than the narrow value could be.
  EXPECT_TRUE(before.contains(vertices.vertex_of(total.node)));
  EXPECT_TRUE(after.contains(vertices.vertex_of(scaled.node)));
}

TEST(Boundary, WhatAThirdKernelReadsStays) {
  const NormThenUpdate each = norm_then_update();
  Builder b;
  const Dims dims = {1 << 20};
  const Value g = b.parameter(DType::f32, dims), m = b.parameter(DType::f32, dims);
  const Value square = b.binary(Op::multiply, g, g), sum = b.reduce(ReduceKind::sum, square, {0});
  const Value decayed = b.binary(Op::multiply, m, b.filled(DType::f32, dims, 0.9));
  const Value next = b.binary(Op::add, decayed, b.broadcast(sum, dims, {}));
  const Value other = b.unary(Op::exp, decayed);
  const Graph graph = finished(b, {next, other});
  const VertexGraph vertices(graph);
  const auto [before, after] =
      best_boundary(vertices, set_of(vertices, {square, sum, decayed}), set_of(vertices, {next}));
  EXPECT_TRUE(before.contains(vertices.vertex_of(decayed.node)));
}

}  // namespace
}  // namespace stitch::search::test
