#include "search/partition/reread_cut.h"

#include <gtest/gtest.h>

#include "tests/kernel/example_graphs.h"

namespace stitch::search::test {

using namespace kernel::test;
namespace {

/// The maximum of `count` neighbours along the rows.
Value largest_of(Builder& b, Value x, std::int64_t count) {
  const Dims dims = b.dims(x);
  Value largest;
  for (std::int64_t i = 0; i < count; ++i) {
    const Value next = b.slice(x, {i, 0}, {dims[0] - count + 1 + i, dims[1]}, {1, 1});
    largest = i == 0 ? next : b.binary(Op::maximum, largest, next);
  }
  return largest;
}

std::vector<int> sizes_of(const std::vector<VertexSet>& parts) {
  std::vector<int> sizes;
  for (const VertexSet& part : parts) sizes.push_back(part.count());
  return sizes;
}

TEST(Stages, EndWhereValuesAreReadSeveralTimes) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 128});
  const Value once = largest_of(b, b.unary(Op::exp, x), 4);
  const Graph graph = finished(b, {largest_of(b, once, 5)});
  // The exponentials; four slices and their maxima; five slices and theirs.
  EXPECT_EQ(sizes_of(staged_partition(VertexGraph(graph))), (std::vector<int>{1, 7, 9}));
}

// A scale that only the last stage needs is no reason for a kernel of its own beside the first.
TEST(Stages, WhatNobodyNeedsSoonerWaits) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 128}), y = b.parameter(DType::f32, {60, 128});
  const Value waits = b.unary(Op::tanh, y);
  const Value largest = largest_of(b, b.unary(Op::exp, x), 5);
  const Graph graph = finished(b, {b.binary(Op::multiply, largest, waits)});
  const VertexGraph vertices(graph);
  const std::vector<VertexSet> parts = staged_partition(vertices);
  ASSERT_EQ(sizes_of(parts).size(), 2U);
  for (const VertexSet& part : parts) {
    EXPECT_EQ(part.contains(vertices.vertex_of(waits.node)), part.contains(vertices.vertex_of(largest.node)));
  }
}

TEST(Stages, WindowsReadTheirElementsSeveralTimes) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 128});
  const graph::ReduceWindowAttributes rows{ReduceKind::sum, {1, 7}, {1, 1}, {0, 3}, {0, 3}, {1, 1}, {1, 1}};
  const graph::ReduceWindowAttributes columns{ReduceKind::sum, {7, 1}, {1, 1}, {3, 0}, {3, 0}, {1, 1}, {1, 1}};
  const Value inner = b.add(Op::reduce_window, {x}, rows);
  const Graph graph = finished(b, {b.add(Op::reduce_window, {inner}, columns)});
  EXPECT_EQ(sizes_of(staged_partition(VertexGraph(graph))), (std::vector<int>{1, 1}));
}

// Parts of a tensor that do not overlap read each element once.
TEST(Stages, ThereIsNoneWithoutRepetition) {
  Builder b;
  const Value x = b.unary(Op::exp, b.parameter(DType::f32, {64, 128}));
  std::vector<Value> parts;
  for (std::int64_t i = 0; i < 4; ++i) {
    parts.push_back(b.unary(Op::tanh, b.slice(x, {16 * i, 0}, {16 * i + 16, 128}, {1, 1})));
  }
  EXPECT_TRUE(staged_partition(VertexGraph(finished(b, parts))).empty());
  EXPECT_TRUE(staged_partition(VertexGraph(softmax(64, 128))).empty());
}

}  // namespace
}  // namespace stitch::search::test
