#include "graph/softmax.h"

#include <gtest/gtest.h>

#include <limits>

#include "graph/builder.h"
#include "graph/dot_dimensions.h"

namespace stitch::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const Dims rows = {4, 6}, small = {4};

/// Parts of a softmax of [4,6] along its rows, as they are asked for.
struct Written {
  enum class Base : std::uint8_t { maximum, finite, not_empty } base = Base::maximum;
  bool reciprocal = false, empty_is_zero = false;
  bool constant_first = false;  ///< −∞ = maximum, as a canonical form may have it
  bool of_other = false;        ///< the maximum is another value's
  double replacement = 0;       ///< of a maximum that is not finite, or −∞
  std::int64_t along = 1;       ///< what the sum goes along
};

Graph softmax_of(const Written& w) {
  Builder b;
  const Value x = b.parameter(DType::f32, rows), other = b.parameter(DType::f32, rows);
  const Value greatest = b.reduce(ReduceKind::max, w.of_other ? other : x, {1});
  Value base = greatest;
  const Value least = b.filled(DType::f32, small, -infinity);
  const Value empty =
      w.constant_first ? b.compare(Comparison::eq, least, greatest) : b.compare(Comparison::eq, greatest, least);
  if (w.base == Written::Base::finite)
    base = b.select(b.unary(Op::is_finite, greatest), greatest, b.filled(DType::f32, small, w.replacement));
  if (w.base == Written::Base::not_empty) base = b.select(empty, b.filled(DType::f32, small, w.replacement), greatest);
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(base, rows, {0})));
  if (w.along == 0) {
    const Value sums = b.reduce(ReduceKind::sum, e, {0});
    return *b.finish({b.binary(Op::divide, e, b.broadcast(sums, rows, {1}))});
  }
  Value sum = b.reduce(ReduceKind::sum, e, {1});
  if (w.empty_is_zero) sum = b.select(empty, b.filled(DType::f32, small, 1), sum);
  if (!w.reciprocal) return *b.finish({b.binary(Op::divide, e, b.broadcast(sum, rows, {0}))});
  const Value inverse = b.binary(Op::divide, b.filled(DType::f32, small, 1), sum);
  return *b.finish({b.binary(Op::multiply, b.broadcast(inverse, rows, {0}), e)});
}

std::optional<Softmax> found(const Written& w) {
  const Graph graph = softmax_of(w);
  return match_softmax(graph, graph.results()[0]);
}

TEST(SoftmaxMatch, AllWaysThatLibrariesWriteItAreOne) {
  for (const Written::Base base : {Written::Base::maximum, Written::Base::finite, Written::Base::not_empty}) {
    for (const bool reciprocal : {false, true}) {
      const auto softmax = found({.base = base, .reciprocal = reciprocal});
      ASSERT_TRUE(softmax);
      EXPECT_EQ(softmax->sum.along, Dims{1});
      EXPECT_EQ(softmax->sum.of.node, 0);
      EXPECT_EQ(static_cast<int>(softmax->sum.base), static_cast<int>(base));
      EXPECT_FALSE(softmax->empty_is_zero);
    }
  }
  for (const bool constant_first : {false, true}) {
    const auto guarded =
        found({.base = Written::Base::not_empty, .empty_is_zero = true, .constant_first = constant_first});
    ASSERT_TRUE(guarded) << constant_first;
    EXPECT_TRUE(guarded->empty_is_zero);
  }
}

TEST(SoftmaxMatch, WhatOnlyLooksLikeItIsNone) {
  EXPECT_FALSE(found({.of_other = true})) << "the maximum of another tensor";
  EXPECT_FALSE(found({.base = Written::Base::finite, .replacement = 1}));
  EXPECT_FALSE(found({.base = Written::Base::not_empty, .replacement = 1}));
  EXPECT_FALSE(found({.along = 0})) << "the sum goes along another dimension";
}

TEST(SoftmaxMatch, KeptDimensions) {
  EXPECT_EQ(free_dimensions(4, {}, {1, 3}), (Dims{0, 2}));
  EXPECT_EQ(free_dimensions(2, {}, {}), (Dims{0, 1}));
}

}  // namespace
}  // namespace stitch::graph
