// Parts of graphs as graphs of their own.
#include "graph/subgraph.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace stitch::graph {
namespace {

TEST(Subgraphs, APartHasTheParametersThatItsResultNeeds) {
  Builder b;
  const Value x = b.parameter(DType::f32, {2}), y = b.parameter(DType::f32, {3}), z = b.parameter(DType::f32, {2});
  Graph whole = *b.finish({b.unary(Op::exp, y), b.binary(Op::add, b.unary(Op::tanh, z), x)});
  whole.constraints.tf32 = true;
  const auto first = part_of(whole, whole.results()[0]), second = part_of(whole, whole.results()[1]);
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->parameters().size(), 1U);
  EXPECT_EQ(first->node(first->parameters()[0]).type().dims, (Dims{3}));
  EXPECT_EQ(second->parameters().size(), 2U);
  EXPECT_EQ(second->size(), 4);
  EXPECT_TRUE(second->constraints.tf32);
}

TEST(Subgraphs, WhatIsWantedNeedsItsSources) {
  Builder b;
  const Value x = b.parameter(DType::f32, {2}, "x"), y = b.unary(Op::exp, x);
  const Graph whole = *b.finish({y});
  const auto without = subgraph(whole, {}, {y});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().message, "parameter 'x' is not in memory");
  EXPECT_EQ(subgraph(whole, {y}, {y})->size(), 1) << "a parameter in its place";
}

}  // namespace
}  // namespace stitch::graph
