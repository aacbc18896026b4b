#include <gtest/gtest.h>

#include "graph/passes/attention/attention_gradients.h"
#include "graph/passes/attention/gradient_sums.h"
#include "graph/passes/attention/row_products.h"
#include "graph/simplify.h"
#include "tests/graph/attention_training.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::LookAlike;
using test::training_graph;
using test::TrainingCase;

/// Sums of a training graph whose operand is a tensor of scores, but for that of the softmax itself.
int sums_of_scores(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::reduce || node.as<ReduceAttributes>().kind != ReduceKind::sum) continue;
    count += graph.node(node.operands[0].node).op == Op::multiply && find_gradient_sums(graph).size() == 1 ? 1 : 0;
  }
  return count;
}

int divisions_of_scores(const Graph& graph, const TrainingCase& training) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    count += node.op == Op::divide && std::ssize(node.type().dims) == std::ssize(training.batch) + 2 ? 1 : 0;
  }
  return count;
}

class AttentionGradientForms : public ::testing::TestWithParam<TrainingCase> {};

TEST_P(AttentionGradientForms, ValuesStay) {
  for (const bool simplified : {false, true}) {
    Graph before = training_graph(GetParam());
    if (simplified) {
      ASSERT_TRUE(simplify(before));
    }
    ASSERT_EQ(find_gradient_sums(before).size(), 1U) << to_text(before);
    const Graph after = test::run_pass(simplify_attention_gradients, before, {}, GetParam().name);
    EXPECT_TRUE(find_gradient_sums(after).empty()) << to_text(after);
    EXPECT_EQ(sums_of_scores(after), 0);
    const int by_constants = GetParam().dropout && !GetParam().multiplied ? 1 : 0;
    EXPECT_EQ(divisions_of_scores(after, GetParam()), simplified ? 0 : by_constants + (GetParam().reciprocal ? 0 : 1))
        << "the forward pass keeps its own\n"
        << to_text(after);
    for (const std::uint64_t seed : {1, 2}) test::expect_same_values(before, after, seed, 1e-9, GetParam().name);
  }
}

/// Rounded to the operators' types, as kernels that keep nothing wide would be.
TEST_P(AttentionGradientForms, RoundedValuesAreNear) {
  const Graph before = training_graph(GetParam());
  const Graph after = test::run_pass(simplify_attention_gradients, before, {}, GetParam().name);
  const std::vector<Tensor> arguments = test::random_arguments(before, 3);
  EvaluateOptions options;
  options.round = true;
  const auto left = evaluate(before, arguments, options), right = evaluate(after, arguments, options);
  ASSERT_TRUE(left && right);
  const double relative = GetParam().dtype == DType::bf16 ? 0.1 : 1e-5;
  for (std::size_t i = 0; i < left->size(); ++i)
    test::expect_equal_tensors((*left)[i], (*right)[i], relative, fmt::format("result {}", i));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionGradientForms, ::testing::ValuesIn(test::training_cases()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(PassesAttentionGradients, LookAlikesStay) {
  for (const auto change :
       {LookAlike::other_values, LookAlike::turned_values, LookAlike::varying_factor, LookAlike::turned_gradient,
        LookAlike::sum_of_rows, LookAlike::other_weights, LookAlike::other_mask}) {
    for (const auto form : {test::GradientForm::jax, test::GradientForm::pytorch}) {
      // The softmax of PyTorch's form is that of its weights, and has no exponential to take for another.
      if (change == LookAlike::other_weights && form == test::GradientForm::pytorch) continue;
      TrainingCase training{.name = "look-alike", .batch = {3, 3}, .rows = 6, .keys = 6, .form = form};
      training.change = change;
      training.dropout = change == LookAlike::other_mask;
      Graph graph = training_graph(training);
      const Result<int> changes = simplify_attention_gradients(graph, {});
      ASSERT_TRUE(changes);
      EXPECT_EQ(*changes, 0) << "look-alike " << static_cast<int>(change);
    }
  }
}

TEST(PassesAttentionGradients, OnlyWhereRoundingMayChange) {
  for (const bool eager : {false, true}) {
    Graph graph = training_graph({});
    graph.constraints.eager_precision = eager;
    PassContext context;
    context.reassociate = eager;
    const Result<int> changes = simplify_attention_gradients(graph, context);
    ASSERT_TRUE(changes);
    EXPECT_EQ(*changes, 0);
  }
}

/// The output is read where its readers have it: heads inside, so that nothing keeps it in another layout.
TEST(PassesAttentionGradients, TheOutputIsReadAsItIsStored) {
  Graph graph = training_graph({.name = "heads inside", .heads_inside = true});
  ASSERT_TRUE(simplify_attention_gradients(graph, {}));
  const auto uses = users(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto attention = match_attention(graph, id);
    if (!attention || graph.node(id).type().dims != Dims{2, 3, 5, 6}) continue;
    ASSERT_EQ(uses[id].size(), 1U);
    EXPECT_EQ(graph.node(uses[id][0]).op, Op::transpose);
    return;
  }
  FAIL() << "there is no attention\n" << to_text(graph);
}

TEST(RowProducts, AreTakenApart) {
  Builder b;
  const Value x = b.parameter(DType::f32, {3, 4, 5}), y = b.parameter(DType::f32, {3, 4, 5});
  const Value row = b.parameter(DType::f32, {3, 5}), column = b.parameter(DType::f32, {4});
  const Value rows = b.broadcast(row, {3, 4, 5}, {0, 2}), columns = b.broadcast(column, {3, 4, 5}, {1});
  Value value = b.binary(Op::multiply, b.unary(Op::negate, x), b.filled(DType::f32, {3, 4, 5}, 3));
  value = b.binary(Op::divide, b.binary(Op::multiply, value, columns), rows);
  value = b.binary(Op::multiply, value, b.convert(b.convert(y, DType::bf16), DType::f32));
  const Value inverted = b.binary(Op::divide, x, y);
  const Graph graph = *b.finish({value, inverted});
  const auto product = row_product(graph, graph.results()[0], 1);
  ASSERT_TRUE(product);
  EXPECT_EQ(product->scale, -3);
  EXPECT_TRUE(product->numerators.empty());
  ASSERT_EQ(product->denominators.size(), 1U);
  EXPECT_EQ(product->denominators[0], (RowFactor{row, {0, 1}}));
  EXPECT_EQ(product->leaves.size(), 3U) << "x, y, and what varies along the dimension";
  EXPECT_FALSE(row_product(graph, graph.results()[1], 1)) << "a divisor that varies";
}

TEST(RowProducts, FactorsOnBothSidesGo) {
  RowProduct product;
  product.numerators = {{{1, 0}, {0}}, {{2, 0}, {0}}, {{1, 0}, {0}}};
  product.denominators = {{{1, 0}, {0}}, {{1, 0}, {1}}};
  cancel(product);
  EXPECT_EQ(product.numerators.size(), 2U) << "one of two alike";
  EXPECT_EQ(product.denominators, (std::vector<RowFactor>{{{1, 0}, {1}}})) << "along another dimension";
}

}  // namespace
}  // namespace stitch::graph
