#include "kernel/structure/kernel_graph.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

std::string to_text(const std::vector<Value>& values) {
  std::vector<NodeId> nodes;
  for (const Value value : values) nodes.push_back(value.node);
  return fmt::format("{}", fmt::join(nodes, " "));
}

struct Example {
  std::string name;
  std::function<Graph()> fragment;
  std::vector<NodeId> members;
  std::string arguments, nodes, results;  ///< node ids of the fragment
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

/// %0 x, %1 maximum, %2 broadcast, %3 difference, %4 exp, %5 sum, %6 broadcast, %7 quotient
Graph softmax_fragment() { return softmax(64, 300); }

/// %0 x, %1 constant, %2 broadcast, %3 x·c, %4 tanh, %5 tanh·c (copies of %1 and %2), results %4 and %5
Graph shared_constant() {
  Builder b;
  const Value x = b.parameter(DType::f32, {1000});
  const Value c = b.broadcast(b.scalar(DType::f32, 3), {1000}, {});
  const Value scaled = b.binary(Op::multiply, x, c);
  const Value t = b.unary(Op::tanh, scaled);
  return finished(b, {t, b.binary(Op::multiply, t, c)});
}

/// %0 x, %1 top (value and position), %2 negated value; results: position and %2
Graph two_results() {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, 256});
  const Value top = b.add(Op::arg_reduce, {x}, graph::ArgReduceAttributes{ReduceKind::max, 1, DType::s32, false});
  return finished(b, {Value{top.node, 1}, b.unary(Op::negate, top)});
}

std::vector<Example> examples() {
  return {
      {"all_of_softmax", softmax_fragment, {1, 3, 4, 5, 7}, "0", "1 2 3 4 5 6 7", "7"},
      {"middle_of_softmax", softmax_fragment, {3, 4}, "0 1", "2 3 4", "4"},
      {"one_that_is_read_through_a_broadcast", softmax_fragment, {1}, "0", "1", "1"},
      {"ends_of_softmax", softmax_fragment, {1, 7}, "0 4 5", "1 6 7", "1 7"},
      {"inside_values_that_leave_are_results", softmax_fragment, {4, 5}, "3", "4 5", "4 5"},
      {"constants_are_copied_into_one", shared_constant, {3, 4}, "0", "1 2 3 4", "4"},
      {"and_into_the_other", shared_constant, {5}, "4", "1 2 5", "5"},
      {"both_results_of_one_operator", two_results, {1}, "0", "1", "1 1"},
  };
}

class KernelOf : public testing::TestWithParam<Example> {};

TEST_P(KernelOf, Members) {
  const Graph fragment = GetParam().fragment();
  const KernelGraph kernel =
      extract_kernel(fragment, attached_operators(fragment), FragmentUses(fragment), GetParam().members);
  EXPECT_TRUE(graph::verify(kernel.graph));
  EXPECT_EQ(to_text(kernel.arguments), GetParam().arguments);
  EXPECT_EQ(fmt::format("{}", fmt::join(kernel.nodes, " ")), GetParam().nodes);
  EXPECT_EQ(to_text(kernel.results), GetParam().results);
  ASSERT_EQ(kernel.graph.parameters().size(), kernel.arguments.size());
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i)
    EXPECT_EQ(kernel.graph.node(kernel.graph.parameters()[i]).type(), fragment.type(kernel.arguments[i]));
  ASSERT_EQ(kernel.graph.results().size(), kernel.results.size());
  for (std::size_t i = 0; i < kernel.results.size(); ++i)
    EXPECT_EQ(kernel.graph.type(kernel.graph.results()[i]), fragment.type(kernel.results[i]));
}

INSTANTIATE_TEST_SUITE_P(Fragments, KernelOf, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

TEST(KernelGraph, CopiesAParameterThatIsAResult) {
  Builder b;
  const Value x = b.parameter(DType::f32, {1000});
  const Graph fragment = finished(b, {x});
  const KernelGraph kernel = extract_kernel(fragment, attached_operators(fragment), FragmentUses(fragment), {x.node});
  EXPECT_EQ(kernel.arguments, std::vector{x});
  EXPECT_EQ(kernel.results, std::vector{x});
  EXPECT_EQ(kernel.graph.size(), 1);
}

struct Attached {
  std::string name;
  std::function<Value(Builder&, Value x, Value scalar)> value;  ///< of a vector and a scalar parameter
  bool attached;
};

void PrintTo(const Attached& example, std::ostream* out) { *out << example.name; }

class AttachedOperator : public testing::TestWithParam<Attached> {};

TEST_P(AttachedOperator, IsKnown) {
  Builder b;
  const Value x = b.parameter(DType::f32, {8}), scalar = b.parameter(DType::f32, {});
  const Value value = GetParam().value(b, x, scalar);
  const Graph graph = finished(b, {value});
  EXPECT_EQ(attached_operators(graph)[value.node], GetParam().attached);
}

INSTANTIATE_TEST_SUITE_P(
    Operators, AttachedOperator,
    testing::Values(
        Attached{"constant", [](Builder& b, Value, Value) { return b.scalar(DType::f32, 1); }, true},
        Attached{"iota", [](Builder& b, Value, Value) { return b.iota(DType::s32, {1000}, 0); }, true},
        Attached{"broadcast",
                 [](Builder& b, Value x, Value) {
                   return b.broadcast(x, {4, 8}, {1});
                 },
                 true},
        Attached{"reshape",
                 [](Builder& b, Value x, Value) {
                   return b.reshape(x, {2, 4});
                 },
                 true},
        Attached{"scalar_arithmetic", [](Builder& b, Value, Value s) { return b.unary(Op::exp, s); }, true},
        Attached{
            "scalar_of_scalars",
            [](Builder& b, Value, Value s) { return b.binary(Op::add, b.unary(Op::exp, s), b.scalar(DType::f32, 1)); },
            true},
        Attached{"arithmetic_on_a_vector", [](Builder& b, Value x, Value) { return b.unary(Op::exp, x); }, false},
        Attached{"arithmetic_on_a_counter",
                 [](Builder& b, Value, Value) { return b.unary(Op::negate, b.iota(DType::s32, {8}, 0)); }, false},
        Attached{"transpose_of_a_vector", [](Builder& b, Value x, Value) { return b.transpose(x, {0}); }, false},
        Attached{"sum_to_a_scalar", [](Builder& b, Value x, Value) { return b.reduce(ReduceKind::sum, x, {0}); },
                 false},
        Attached{"arithmetic_on_a_computed_scalar",
                 [](Builder& b, Value x, Value) { return b.unary(Op::exp, b.reduce(ReduceKind::sum, x, {0})); }, false},
        Attached{"no_elements", [](Builder& b, Value x, Value) { return b.slice(x, {3}, {3}); }, true},
        Attached{"parameter", [](Builder&, Value x, Value) { return x; }, false}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::kernel::test
