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

/// Of a dropout the kernel reads the key alone; what weighs by the scores is none.
TEST(AttentionCall, ADropoutIsItsOwn) {
  using kernel::test::Dropout;
  for (const Dropout how : {Dropout::selected, Dropout::multiplied, Dropout::narrow}) {
    const Graph graph = attention_graph(with_dropout({"", {2, 4}, 16, 24, 8, 8, DType::f16, Mask::causal}, how));
    const std::vector<LibraryCall> calls = calls_of(graph);
    ASSERT_EQ(calls.size(), 1U);
    ASSERT_EQ(calls[0].operands.size(), 4U) << "queries, keys, values and the key";
    EXPECT_EQ(graph.type(calls[0].operands[3]).elements(), 2);
    CutOptions options;
    options.library.own = [](const Graph&, bool) { return true; };
    EXPECT_TRUE(cut(graph, options).fragments.empty()) << "the mask is in no memory";
  }
}

/// Masks of lengths and segments are made on the way, of what is much smaller.
TEST(AttentionCall, MasksOfLittleAreItsOwn) {
  for (const Mask mask : {Mask::lengths, Mask::causal_lengths, Mask::segments}) {
    const Graph graph = attention_graph({"", {2, 4}, 48, 64, 8, 8, DType::f16, mask});
    const std::vector<LibraryCall> calls = calls_of(graph);
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(calls[0].operands.size(), mask == Mask::segments ? 5U : 4U);
    for (const Value operand : calls[0].operands) EXPECT_EQ(graph.node(operand.node).op, Op::parameter);
  }
  // Of one row the numbers of segments are no less than what they hide.
  const Graph graph = attention_graph({"", {2, 4}, 1, 8, 8, 8, DType::f16, Mask::segments});
  ASSERT_EQ(calls_of(graph).size(), 1U);
  EXPECT_EQ(calls_of(graph)[0].operands.size(), 4U) << "the mask";
}

/// What is gathered is in no memory, where nobody else needs it.
TEST(AttentionCall, PagesAreReadWhereTheyLie) {
  const Graph graph = attention_graph(kernel::test::with_pages({"", {2, 4}, 1, 64, 8, 8, DType::f16}, 16));
  const std::vector<LibraryCall> calls = calls_of(graph);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_THAT(calls[0].description, testing::HasSubstr("of pages"));
  EXPECT_EQ(calls[0].operands.size(), 4U) << "queries, two caches, the table of both";
  for (const Value operand : calls[0].operands) EXPECT_EQ(graph.node(operand.node).op, Op::parameter);
  CutOptions options;
  options.library.own = [](const Graph&, bool) { return true; };
  EXPECT_TRUE(cut(graph, options).fragments.empty());
  options.library.own = [](const Graph& call, bool) {
    return std::ranges::none_of(call.nodes(), [](const Node& node) { return node.op == Op::gather; });
  };
  const CutGraph apart = cut(graph, options);
  ASSERT_EQ(apart.calls.size(), 1U) << "a kernel that cannot takes what is gathered";
  EXPECT_EQ(apart.fragments.size(), 1U);
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

/// An attention by hand whose weights are `changed`, as it is found.
std::optional<Attention> attention_with(const std::function<Value(Builder&, Value scores, Value weights)>& changed) {
  Builder b;
  const Dims dims = {2, 16, 16};
  const Value x = b.parameter(DType::f32, {2, 16, 8}), y = b.parameter(DType::f32, {2, 16, 8});
  const Value scores = b.dot(x, y, {{0}, {0}, {2}, {2}, DType::f32});
  const Value greatest = b.broadcast(b.reduce(ReduceKind::max, scores, {2}), dims, {0, 1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, scores, greatest));
  const Value weights = b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {2}), dims, {0, 1}));
  const Value product = b.dot(changed(b, scores, weights), y, {{0}, {0}, {2}, {1}, DType::f32});
  const Graph graph = *b.finish({product});
  const auto found = match_attention(graph, product.node);
  if (found) {
    EXPECT_EQ(found->quotient, weights);
  }
  return found;
}

TEST(AttentionCall, WeightsTimesTheScoresAreNoDropout) {
  const auto times = [](Builder& b, Value weights, Value by) { return b.binary(Op::multiply, weights, by); };
  const auto dropped = attention_with([&](Builder& b, Value, Value weights) {
    return times(b, weights, b.parameter(DType::f32, {2, 16, 16}));
  });
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->dropout.size(), 1U);
  EXPECT_FALSE(attention_with([&](Builder& b, Value scores, Value weights) { return times(b, weights, scores); }));
  EXPECT_FALSE(attention_with([](Builder& b, Value, Value weights) { return b.unary(Op::tanh, weights); }));
  EXPECT_TRUE(attention_with([](Builder&, Value, Value weights) { return weights; })->dropout.empty());
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
