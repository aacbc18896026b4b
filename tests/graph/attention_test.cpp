#include "graph/calls/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/calls/find_calls.h"
#include "graph/cut.h"
#include "tests/kernel/attention_graph.h"

namespace stitch::graph {
namespace {

using kernel::test::attention_graph;
using kernel::test::AttentionCase;
using kernel::test::Mask;

std::vector<LibraryCall> calls_of(const Graph& graph, bool wanted = true) {
  LibraryOptions options;
  options.own = [=](const Graph&, bool) { return wanted; };
  return find_library_calls(graph, options);
}

TEST(AttentionCall, IsOneCall) {
  const Graph graph = attention_graph({"", {2, 4}, 16, 24, 8, 8, DType::bf16, Mask::causal, 2, false, true});
  const std::vector<LibraryCall> calls = calls_of(graph);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].operands.size(), 3U) << "queries, keys and values; the mask is made of positions";
  EXPECT_EQ(graph.node(calls[0].root).op, Op::dot);
  EXPECT_EQ(calls[0].result, graph.results()[0]) << "with the transposition that follows";
  EXPECT_EQ(calls[0].viewed.size(), 3U);
  EXPECT_THAT(calls[0].description, testing::StartsWith("attention bf16"));
}

TEST(AttentionCall, AMaskFromMemoryIsAnOperand) {
  const Graph graph = attention_graph({"", {2, 4}, 16, 24, 8, 8, DType::f16, Mask::keys});
  ASSERT_EQ(calls_of(graph).size(), 1U);
  EXPECT_EQ(calls_of(graph)[0].operands.size(), 4U);
}

/// A cache is read as it lies, and written by whom reads it, where it is wanted.
TEST(AttentionCall, UpdatesOfKeysAndValuesAreItsOwn) {
  const AttentionCase plain{"", {2, 4}, 1, 24, 8, 8, DType::f16};
  const Graph graph = attention_graph(kernel::test::with_updates(plain, 1));
  const std::vector<LibraryCall> calls = calls_of(graph);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_THAT(calls[0].description, testing::HasSubstr("with 2 updates"));
  EXPECT_THAT(calls[0].further, testing::ElementsAre(graph.results()[1], graph.results()[2]));
  EXPECT_EQ(calls[0].operands.size(), 6U) << "queries, two caches, what is new of both, and where it goes";
  for (const Value operand : calls[0].operands) EXPECT_EQ(graph.node(operand.node).op, Op::parameter);
  const Graph unwanted = attention_graph(kernel::test::with_updates(plain, 1, false));
  EXPECT_TRUE(calls_of(unwanted)[0].further.empty());
  EXPECT_EQ(calls_of(unwanted)[0].operands.size(), 6U);
  LibraryOptions options;
  options.own = [](const Graph&, bool) { return true; };
  const std::vector<LibraryCall> apart = find_library_calls(graph, options, false);
  ASSERT_EQ(apart.size(), 1U);
  EXPECT_TRUE(apart[0].further.empty());
  EXPECT_EQ(apart[0].operands.size(), 3U);
}

TEST(AttentionCall, AnUpdateThatTheKernelCannotDoIsNotItsOwn) {
  const Graph graph = attention_graph(kernel::test::with_updates({"", {2, 4}, 1, 24, 8, 8, DType::f16}, 1));
  LibraryOptions options;
  options.own = [](const Graph& call, bool) { return call.parameters().size() == 3; };
  const std::vector<LibraryCall> calls = find_library_calls(graph, options);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].operands.size(), 3U) << "the updated tensors";
}

/// What a loop carries, or is given away, is updated in place: by a kernel that writes no more than what is new.
TEST(AttentionCall, UpdatesInPlaceAreLeftToFragments) {
  const Graph graph = attention_graph(kernel::test::with_updates({"", {2, 4}, 1, 24, 8, 8, DType::f16}, 1));
  CutOptions options;
  options.library.own = [](const Graph&, bool) { return true; };
  EXPECT_EQ(cut(graph, options).calls[0].further.size(), 2U);
  EXPECT_TRUE(cut(graph, options).fragments.empty());
  const auto cache = [&](std::size_t result) {
    const NodeId parameter = graph.node(graph.results()[result].node).operands[0].node;
    const auto parameters = graph.parameters();
    return static_cast<std::int64_t>(std::ranges::find(parameters, parameter) - parameters.begin());
  };
  options.donations = {{cache(1), 1}, {cache(2), 2}};
  const CutGraph given = cut(graph, options);
  EXPECT_TRUE(given.calls[0].further.empty());
  EXPECT_TRUE(given.donations[0].in_place && given.donations[1].in_place);
  ASSERT_EQ(given.fragments.size(), 1U);
}

TEST(AttentionCall, WhereNobodyWantsItItIsTwo) {
  const Graph graph = attention_graph({"", {2}, 16, 24, 8, 8});
  EXPECT_EQ(calls_of(graph, false).size(), 2U);
  EXPECT_EQ(find_library_calls(graph).size(), 2U);
}

/// An attention of [2,16,8] by hand, where `change` may use what lies between the products.
std::size_t calls_with(
    const std::function<std::vector<Value>(Builder&, Value scores, Value weights, Value result)>& also) {
  Builder b;
  const Dims dims = {2, 16, 16};
  const Value x = b.parameter(DType::f32, {2, 16, 8}), y = b.parameter(DType::f32, {2, 16, 8});
  const Value scores = b.dot(x, y, {{0}, {0}, {2}, {2}, DType::f32});
  const Value greatest = b.broadcast(b.reduce(ReduceKind::max, scores, {2}), dims, {0, 1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, scores, greatest));
  const Value weights = b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {2}), dims, {0, 1}));
  const Value result = b.dot(weights, b.parameter(DType::f32, {2, 16, 8}), {{0}, {0}, {2}, {1}, DType::f32});
  const Graph graph = *b.finish(also(b, scores, weights, result));
  return calls_of(graph).size();
}

TEST(AttentionCall, WhatOthersNeedStaysInMemory) {
  EXPECT_EQ(calls_with([](Builder&, Value, Value, Value result) { return std::vector{result}; }), 1U);
  EXPECT_EQ(calls_with([](Builder&, Value, Value weights, Value result) {
              return std::vector{result, weights};
            }),
            2U)
      << "weights are a result";
  EXPECT_EQ(calls_with([](Builder& b, Value scores, Value, Value result) {
              return std::vector{result, b.unary(Op::tanh, scores)};
            }),
            2U)
      << "scores are read by another operator";
}

TEST(AttentionCall, ItsPartsAreFound) {
  const Graph graph = attention_graph({"", {2}, 16, 24, 8, 8, DType::f16, Mask::bias});
  NodeId product = graph.size() - 1;
  while (graph.node(product).op != Op::dot) --product;
  const auto found = match_attention(graph, product);
  ASSERT_TRUE(found);
  EXPECT_EQ(graph.node(found->scores).op, Op::dot);
  EXPECT_EQ(graph.node(found->logits.node).op, Op::add);
  EXPECT_EQ(graph.node(found->weights.node).op, Op::convert);
  EXPECT_FALSE(match_attention(graph, found->scores)) << "the first product";
}

}  // namespace
}  // namespace stitch::graph
