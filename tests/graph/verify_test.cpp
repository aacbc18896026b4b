#include "graph/verify.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace stitch::graph {
namespace {

std::string message(const Graph& graph) {
  const Status status = verify(graph);
  return status.ok() ? "" : status.error().message;
}

Node parameter(std::string_view type) {
  const TensorType t = *parse_tensor_type(type);
  return {Op::parameter, {}, ParameterAttributes{t}, {t}, {}, "p", 0};
}

Node exp_of(Value operand, std::string_view type) {
  return {Op::exp, {operand}, NoAttributes{}, {*parse_tensor_type(type)}, {}, "e", 0};
}

TEST(Verify, AcceptsWhatGraphAddMade) {
  Builder b;
  const Value x = b.parameter(DType::f32, {4});
  EXPECT_EQ(message(*b.finish({b.unary(Op::exp, x), x})), "");
  EXPECT_EQ(message(Graph{}), "");
}

TEST(Verify, NamesTheNodeAtFault) {
  struct Case {
    std::vector<Node> nodes;
    std::string expected;
  };
  Node wrong_attributes = exp_of({0, 0}, "f32[4]");
  wrong_attributes.attributes = ReshapeAttributes{{4}};
  const Case cases[] = {
      {{parameter("f32[4]"), exp_of({1, 0}, "f32[4]")},
       "node 1 (exp 'e'): operand 0 is node 1, which does not come before it"},
      {{parameter("f32[4]"), exp_of({2, 0}, "f32[4]"), parameter("f32[4]")}, "node 1 (exp 'e'): operand 0 is node 2"},
      {{parameter("f32[4]"), exp_of({-1, 0}, "f32[4]")}, "node 1 (exp 'e'): operand 0 is node -1"},
      {{parameter("f32[4]"), exp_of({0, 1}, "f32[4]")}, "node 1 (exp 'e'): operand 0 is result 1 of a node that has 1"},
      {{parameter("f32[4]"), exp_of({0, 0}, "f32[5]")},
       "node 1 (exp 'e'): its recorded types are not what inference gives"},
      {{parameter("s32[4]"), exp_of({0, 0}, "s32[4]")}, "node 1 (exp 'e'): operand 0 is s32, which exp does not take"},
      {{parameter("f32[4]"), wrong_attributes}, "node 1 (exp 'e'): has attributes of another operator"},
  };
  for (const Case& c : cases) {
    Graph graph;
    for (const Node& node : c.nodes) graph.add_unchecked(node);
    EXPECT_TRUE(message(graph).starts_with(c.expected)) << message(graph) << "\nexpected " << c.expected;
  }
}

TEST(Verify, ResultsMustExist) {
  Graph graph;
  graph.add_unchecked(parameter("f32[4]"));
  graph.set_results({{0, 0}, {0, 1}});
  EXPECT_EQ(message(graph), "result 0.1 does not exist");
  graph.set_results({{1, 0}});
  EXPECT_EQ(message(graph), "result 1.0 does not exist");
}

TEST(Verify, RegionsAreVerifiedToo) {
  Graph inner;
  inner.add_unchecked(parameter("f32[]"));
  inner.add_unchecked(exp_of({0, 0}, "f32[7]"));
  inner.set_results({{0, 0}});
  Graph graph;
  Node selector = parameter("s32[]");
  graph.add_unchecked(selector);
  graph.add_unchecked(parameter("f32[]"));
  Node node{Op::conditional, {{0, 0}, {1, 0}}, NoAttributes{}, {*parse_tensor_type("f32[]")}, {}, "c", 0};
  node.regions = {std::make_shared<const Graph>(inner)};
  graph.add_unchecked(node);
  EXPECT_EQ(message(graph),
            "node 2 (conditional 'c'): region 0: node 1 (exp 'e'): its recorded types are not what inference gives");
  Graph missing;
  missing.add_unchecked(selector);
  missing.add_unchecked(parameter("f32[]"));
  node.regions = {nullptr};
  missing.add_unchecked(node);
  EXPECT_EQ(message(missing), "node 2 (conditional 'c'): region 0 is missing");
}

}  // namespace
}  // namespace stitch::graph
