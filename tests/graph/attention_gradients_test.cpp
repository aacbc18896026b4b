#include "graph/calls/attention_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/calls/find_calls.h"
#include "graph/cut.h"
#include "graph/passes/attention/attention_gradients.h"
#include "graph/print.h"
#include "graph/simplify.h"
#include "graph/subgraph.h"
#include "tests/graph/attention_training.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::training_graph;
using test::TrainingCase;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int count_of(const Graph& graph, Op op) { return static_cast<int>(std::ranges::count(graph.nodes(), op, &Node::op)); }

/// A graph as programs have it.
Graph prepared(const TrainingCase& training) {
  Graph graph = training_graph(training);
  EXPECT_TRUE(simplify(graph));
  EXPECT_TRUE(simplify_attention_gradients(graph, {}));
  return graph;
}

LibraryOptions asking(const std::function<bool(const Graph&)>& own) {
  LibraryOptions options;
  options.own = [=](const Graph& call, bool) { return own(call); };
  return options;
}
/// What are several products.
LibraryOptions wanting_all() {
  return asking([](const Graph& call) { return count_of(call, Op::dot) > 1; });
}

class AttentionGradientCalls : public ::testing::TestWithParam<TrainingCase> {};

TEST_P(AttentionGradientCalls, AreThree) {
  const Graph graph = prepared(GetParam());
  const std::vector<LibraryCall> calls = find_library_calls(graph, wanting_all());
  ASSERT_EQ(calls.size(), 3U) << to_text(graph);
  const auto find = [&](std::string_view what) -> const LibraryCall& {
    const auto found = std::ranges::find_if(
        calls, [&](const LibraryCall& call) { return call.description.find(what) != std::string::npos; });
    EXPECT_NE(found, calls.end()) << what;
    return found == calls.end() ? calls[0] : *found;
  };
  const LibraryCall &forward = find("softmax"), &queries = find("queries"), &both = find("keys and values");
  ASSERT_EQ(forward.further.size(), 2U) << "maxima and sums";
  EXPECT_EQ(graph.node(forward.further[0].node).as<ReduceAttributes>().kind, ReduceKind::max);
  EXPECT_EQ(graph.node(forward.further[1].node).as<ReduceAttributes>().kind, ReduceKind::sum);
  EXPECT_TRUE(queries.further.empty());
  ASSERT_EQ(both.further.size(), 1U);
  EXPECT_LT(both.result.node, both.further[0].node);
  for (const LibraryCall* gradient : {&queries, &both}) {
    const auto own = subgraph(graph, gradient->operands, gradient->results());
    ASSERT_TRUE(own) << own.error().message;
    EXPECT_EQ(count_of(*own, Op::reduce), 0) << to_text(*own);
    EXPECT_EQ(count_of(*own, Op::divide), 0) << to_text(*own);
    EXPECT_EQ(count_of(*own, Op::dot), gradient == &queries ? 3 : 4);
    for (const NodeId id : own->parameters()) {
      EXPECT_LE(own->node(id).type().elements(), 2 * 4 * 7 * 7) << "nothing like the scores";
    }
    EXPECT_GE(own->parameters().size(), 7U) << "queries, keys, values, output's gradient, maxima, reciprocals, sums";
  }
}

/// The pieces of the cut, evaluated one after the other, are the graph.
TEST_P(AttentionGradientCalls, ComputeTheGraph) {
  const Graph graph = prepared(GetParam());
  const std::vector<Tensor> arguments = test::random_arguments(graph, 5);
  CutOptions options;
  options.library = wanting_all();
  const CutGraph pieces = cut(graph, options);
  std::map<Value, Tensor> memory;
  for (std::size_t p = 0; p < arguments.size(); ++p) memory[{graph.parameters()[p], 0}] = arguments[p];
  struct Piece {
    std::vector<Value> reads, writes;
  };
  std::vector<Piece> left;
  for (const FragmentSite& site : pieces.fragments) left.push_back({site.arguments, site.results});
  for (const LibraryCall& call : pieces.calls) left.push_back({call.operands, call.results()});
  while (!left.empty()) {
    const auto ready = std::ranges::find_if(left, [&](const Piece& piece) {
      return std::ranges::all_of(piece.reads, [&](Value value) { return memory.contains(value); });
    });
    ASSERT_NE(ready, left.end()) << "pieces wait for each other";
    const auto part = subgraph(graph, ready->reads, ready->writes);
    ASSERT_TRUE(part) << part.error().message;
    std::vector<Tensor> inputs;
    for (const Value value : ready->reads) inputs.push_back(memory.at(value));
    const auto made = evaluate(*part, inputs);
    ASSERT_TRUE(made) << made.error().message;
    for (std::size_t r = 0; r < made->size(); ++r) memory[ready->writes[r]] = (*made)[r];
    left.erase(ready);
  }
  const auto expected = evaluate(graph, arguments);
  ASSERT_TRUE(expected);
  for (std::size_t r = 0; r < expected->size(); ++r) {
    Value result = graph.results()[r];
    while (!memory.contains(result)) {
      ASSERT_EQ(graph.node(result.node).op, Op::reshape);
      result = graph.node(result.node).operands[0];
    }
    Tensor made = memory.at(result);
    made.type = (*expected)[r].type;
    test::expect_equal_tensors((*expected)[r], made, 1e-9, fmt::format("result {}", r));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionGradientCalls, ::testing::ValuesIn(test::training_cases()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(AttentionGradientCall, WhereKeysAndValuesCannotBeOneTheyAreTwo) {
  const Graph graph = prepared({.name = "causal", .causal = true});
  const auto calls = find_library_calls(
      graph, asking([](const Graph& call) { return count_of(call, Op::dot) > 1 && count_of(call, Op::dot) < 4; }));
  std::vector<std::string> descriptions;
  for (const LibraryCall& call : calls) descriptions.push_back(call.description);
  EXPECT_THAT(descriptions,
              ::testing::UnorderedElementsAre(HasSubstr("softmax"), HasSubstr("gradient of its queries"),
                                              HasSubstr("gradient of its keys"), HasSubstr("gradient of its values")));
}

/// Weights would be in memory anyway.
TEST(AttentionGradientCall, AllAreJoinedOrNone) {
  const Graph graph = prepared({});
  const std::size_t alone = find_library_calls(graph).size();
  EXPECT_EQ(alone, 6U);
  const auto refusing = [&](int dots, std::size_t results) {
    return find_library_calls(graph, asking([=](const Graph& call) {
                                const int found = count_of(call, Op::dot);
                                return found > 1 && (found != dots || call.results().size() != results);
                              }))
        .size();
  };
  EXPECT_EQ(refusing(2, 3), alone) << "the forward pass";
  EXPECT_EQ(refusing(3, 1), alone) << "the gradient of queries, and that of keys";
  EXPECT_EQ(refusing(4, 2), 4U);
  EXPECT_EQ(find_library_calls(graph, asking([](const Graph&) { return false; })).size(), alone);
}

TEST(AttentionGradientCall, WeightsThatOthersNeedStayInMemory) {
  TrainingCase training{.name = "a result"};
  training.keeps_weights = true;
  EXPECT_EQ(find_library_calls(prepared(training), wanting_all()).size(), 6U);
}

/// Without the pass the sum of the backward pass reads a tensor of scores.
TEST(AttentionGradientCall, TakeAGraphWithoutSumsOfScores) {
  Graph graph = training_graph({});
  ASSERT_TRUE(simplify(graph));
  EXPECT_EQ(find_library_calls(graph, wanting_all()).size(), 6U);
}

/// An operand that follows from what the call gives.
TEST(AttentionGradientCall, DoNotWaitForThemselves) {
  Builder b;
  const Dims dims = {2, 4, 4};
  const auto dot = [&](Value left, Value right, std::int64_t from_left, std::int64_t from_right) {
    return b.dot(left, right, {{0}, {0}, {from_left}, {from_right}, DType::f32});
  };
  const auto graph_with = [&](bool circular) {
    b = Builder();
    const Value q = b.parameter(DType::f32, dims), k = b.parameter(DType::f32, dims), v = b.parameter(DType::f32, dims);
    const Value gradient = b.parameter(DType::f32, dims);
    const Value scores = dot(q, k, 2, 2);
    const auto rows = [&](Value row) { return b.broadcast(row, dims, {0, 1}); };
    const Value e = b.unary(Op::exp, b.binary(Op::subtract, scores, rows(b.reduce(ReduceKind::max, scores, {2}))));
    const Value sum = b.reduce(ReduceKind::sum, e, {2});
    const Value p = b.binary(Op::multiply, e, rows(b.unary(Op::exp, b.unary(Op::negate, sum))));
    const Value weights = b.binary(Op::divide, e, rows(sum));
    const Value output = dot(weights, v, 2, 1);
    const Value values_gradient = dot(p, gradient, 1, 1);
    const Value other = circular ? b.unary(Op::tanh, values_gradient) : q;
    const Value keys_gradient = dot(p, other, 1, 1);
    return *b.finish({output, values_gradient, keys_gradient});
  };
  EXPECT_EQ(find_library_calls(graph_with(false), wanting_all()).size(), 2U);
  EXPECT_EQ(find_library_calls(graph_with(true), wanting_all()).size(), 3U) << "one after the other";
}

/// As PyTorch has it, whose backward pass is a graph of its own, with the logarithm of each row's sum.
struct PassesApart {
  Builder b;
  Value parameter(std::int64_t rows) { return b.parameter(DType::f32, {2, rows, 4}); }
  Value dot(Value left, Value right, std::int64_t from_left, std::int64_t from_right) {
    return b.dot(left, right, {{0}, {0}, {from_left}, {from_right}, DType::f32});
  }
  Value rows(Value row) { return b.broadcast(row, {2, 5, 7}, {0, 1}); }

  Graph forward() {
    const Value q = parameter(5), k = parameter(7), v = parameter(7);
    const Value scores = dot(q, k, 2, 2), greatest = b.reduce(ReduceKind::max, scores, {2});
    const Value e = b.unary(Op::exp, b.binary(Op::subtract, scores, rows(greatest)));
    const Value sum = b.reduce(ReduceKind::sum, e, {2});
    const Value output = dot(b.binary(Op::divide, e, rows(sum)), v, 2, 1);
    return prepared(*b.finish({output, b.binary(Op::add, greatest, b.unary(Op::log, sum))}));
  }
  Graph backward(bool keeps_weights = false) {
    const Value q = parameter(5), k = parameter(7), v = parameter(7), output = parameter(5), gradient = parameter(5);
    const Value logarithm = b.parameter(DType::f32, {2, 5});
    const Value weights = b.unary(Op::exp, b.binary(Op::subtract, dot(q, k, 2, 2), rows(logarithm)));
    const Value row = b.reduce(ReduceKind::sum, b.binary(Op::multiply, gradient, output), {2});
    const Value of_weights = b.binary(Op::subtract, dot(gradient, v, 2, 2), rows(row));
    const Value of_scores = b.binary(Op::multiply, weights, of_weights);
    std::vector<Value> results = {dot(of_scores, k, 2, 1), dot(of_scores, q, 1, 1), dot(weights, gradient, 1, 1)};
    if (keeps_weights) results.push_back(weights);
    return prepared(*b.finish(results));
  }
  static Graph prepared(Graph graph) {
    EXPECT_TRUE(simplify(graph));
    EXPECT_TRUE(simplify_attention_gradients(graph, {}));
    return graph;
  }
};

std::vector<std::string> descriptions_of(const Graph& graph) {
  std::vector<std::string> descriptions;
  for (const LibraryCall& call : find_library_calls(graph, wanting_all())) descriptions.push_back(call.description);
  return descriptions;
}

TEST(AttentionGradientCall, AForwardPassAloneGivesItsRows) {
  const Graph graph = PassesApart().forward();
  const std::vector<LibraryCall> calls = find_library_calls(graph, wanting_all());
  ASSERT_EQ(calls.size(), 1U) << to_text(graph);
  EXPECT_THAT(calls[0].description, HasSubstr("softmax"));
  ASSERT_EQ(calls[0].further.size(), 2U) << "maxima and sums";
  EXPECT_EQ(graph.node(calls[0].further[1].node).as<ReduceAttributes>().kind, ReduceKind::sum);
}

TEST(AttentionGradientCall, ABackwardPassAloneMakesTheWeightsAgain) {
  EXPECT_THAT(descriptions_of(PassesApart().backward()),
              ::testing::UnorderedElementsAre(HasSubstr("gradient of its queries"),
                                              HasSubstr("gradients of its keys and values")));
  EXPECT_EQ(descriptions_of(PassesApart().backward(/*keeps_weights=*/true)).size(), 5U)
      << "weights are in memory anyway";
}

}  // namespace
}  // namespace stitch::graph
