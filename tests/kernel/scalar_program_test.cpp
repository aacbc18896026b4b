#include "kernel/structure/scalar_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"
#include "kernel/structure/scatter_items.h"
#include "tests/base/small_stack.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/example_graphs.h"
#include "tests/kernel/item_interpreter.h"

namespace stitch::kernel::test {
namespace {

/// A program that computes one result of a graph over that result's axes.
struct Propagated {
  Graph graph;
  AxisAnalysis analysis;
  std::unique_ptr<ScalarProgram> program;
  ItemId item = -1;

  Propagated(Graph made, std::size_t result) : graph(std::move(made)), analysis(graph) {
    const Value value = graph.results()[result];
    const std::vector<int> axes = analysis.of(value);
    std::vector<std::int64_t> extents;
    for (const int axis : axes) extents.push_back(analysis.axes()[axis].extent);
    program = std::make_unique<ScalarProgram>(graph, axes, extents);
    const auto found = program->item(value, program->canonical_indices(analysis, value));
    if (found) item = *found;
  }
  Propagated(const Propagated&) = delete;

  /// Values of the axes at an element of the result.
  [[nodiscard]] std::vector<std::int64_t> axes_at(std::int64_t element) const {
    const auto& extents = program->axes().extents;
    std::vector<std::int64_t> at(extents.size());
    for (std::size_t a = extents.size(); a-- > 0;) {
      at[a] = element % extents[a];
      element /= extents[a];
    }
    return at;
  }

  [[nodiscard]] std::vector<ItemId> loads_of(int number) const {
    std::vector<ItemId> loads;
    for (std::size_t i = 0; i < program->items().size(); ++i) {
      const Item& each = program->items()[i];
      if (each.kind == Item::Kind::load && each.buffer == Buffer{Buffer::Kind::input, number}) loads.push_back(i);
    }
    return loads;
  }
};

// ---- where an operator looks --------------------------------------------------------------------------------------

struct Look {
  Dims at;               ///< coordinates in the result
  std::int64_t element;  ///< of parameter 0 that is read there; -1: none, the guard forbids it
};

struct Example {
  std::string name;
  std::function<Value(Builder&)> value;  ///< parameter 0 is what is looked at, parameter 1 (if any) holds integers
  std::vector<std::int64_t> integers;
  std::vector<Look> looks;
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

Value parameter(Builder& b, const Dims& dims) { return b.parameter(DType::f32, dims); }

std::vector<Example> examples() {
  return {
      {"slice",
       [](Builder& b) {
         return b.slice(parameter(b, {10, 20}), {2, 3}, {10, 8}, {2, 1});
       },
       {},
       {{{0, 0}, 2 * 20 + 3}, {{1, 4}, 4 * 20 + 7}, {{3, 0}, 8 * 20 + 3}}},
      {"pad",
       [](Builder& b) {
         return b.pad(parameter(b, {4, 6}), b.scalar(DType::f32, 7), {1, 2}, {0, 1});
       },
       {},
       {{{0, 2}, -1}, {{1, 1}, -1}, {{1, 2}, 0}, {{4, 7}, 23}, {{4, 8}, -1}}},
      {"pad_between",
       [](Builder& b) { return b.pad(parameter(b, {3}), b.scalar(DType::f32, 7), {1}, {2}, {1}); },
       {},
       {{{0}, -1}, {{1}, 0}, {{2}, -1}, {{3}, 1}, {{4}, -1}, {{5}, 2}, {{6}, -1}, {{7}, -1}}},
      {"pad_that_cuts",
       [](Builder& b) { return b.pad(parameter(b, {10}), b.scalar(DType::f32, 7), {-2}, {1}); },
       {},
       {{{0}, 2}, {{7}, 9}, {{8}, -1}}},
      {"pad_that_cuts_between",
       [](Builder& b) { return b.pad(parameter(b, {4}), b.scalar(DType::f32, 7), {-2}, {0}, {2}); },
       {},
       {{{0}, -1}, {{1}, 1}, {{2}, -1}, {{3}, -1}, {{4}, 2}, {{7}, 3}}},
      {"first_of_a_concatenation",
       [](Builder& b) {
         const Value x = parameter(b, {3});
         return b.concatenate({x, b.iota(DType::f32, {5}, 0)}, 0);
       },
       {},
       {{{0}, 0}, {{2}, 2}, {{3}, -1}, {{7}, -1}}},
      {"last_of_a_concatenation",
       [](Builder& b) {
         const Value x = parameter(b, {3, 2});
         return b.concatenate({b.iota(DType::f32, {3, 5}, 0), x}, 1);
       },
       {},
       {{{1, 4}, -1}, {{1, 5}, 2}, {{2, 6}, 5}}},
      {"reverse",
       [](Builder& b) {
         return b.reverse(parameter(b, {4, 6}), {1});
       },
       {},
       {{{1, 0}, 11}, {{1, 5}, 6}, {{3, 2}, 21}}},
      {"irregular_reshape",
       [](Builder& b) {
         return b.reshape(parameter(b, {6, 4}), {8, 3});
       },
       {},
       {{{5, 1}, 16}, {{7, 2}, 23}}},
      {"reshape_of_a_transpose",
       [](Builder& b) {
         return b.reshape(b.transpose(parameter(b, {5, 7}), {1, 0}), {35});
       },
       {},
       {{{1}, 7}, {{5}, 1}, {{34}, 34}}},
      {"transpose",
       [](Builder& b) {
         return b.transpose(parameter(b, {5, 7, 2}), {1, 2, 0});
       },
       {},
       {{{3, 1, 2}, 2 * 14 + 3 * 2 + 1}}},
      {"broadcast",
       [](Builder& b) {
         return b.broadcast(parameter(b, {5}), {3, 5, 2}, {1});
       },
       {},
       {{{2, 4, 1}, 4}, {{0, 0, 1}, 0}}},
      {"gather_clamps",
       [](Builder& b) {
         const Value table = parameter(b, {500, 96});
         return b.add(Op::gather, {table, b.parameter(DType::s32, {4, 1})}, row_gather(96));
       },
       {7, 499, 900, -3},
       {{{0, 5}, 7 * 96 + 5}, {{1, 0}, 499 * 96}, {{2, 95}, 499 * 96 + 95}, {{3, 1}, 1}}},
      {"dynamic_slice_clamps",
       [](Builder& b) {
         const Value x = parameter(b, {100, 64}), at = b.parameter(DType::s32, {});
         return b.add(Op::dynamic_slice, {x, at, b.scalar(DType::s32, 3)}, graph::DynamicSliceAttributes{{4, 10}});
       },
       {98},
       {{{0, 0}, 96 * 64 + 3}, {{3, 9}, 99 * 64 + 12}}},
      {"dynamic_slice_below",
       [](Builder& b) {
         const Value x = parameter(b, {100}), at = b.parameter(DType::s32, {});
         return b.add(Op::dynamic_slice, {x, at}, graph::DynamicSliceAttributes{{10}});
       },
       {-5},
       {{{0}, 0}, {{9}, 9}}},
      {"around_an_update",
       [](Builder& b) {
         const Value x = parameter(b, {10}), at = b.parameter(DType::s32, {});
         return b.add(Op::dynamic_update_slice, {x, b.iota(DType::f32, {3}, 0), at}, graph::UpdateAttributes{});
       },
       {4},
       {{{3}, 3}, {{4}, -1}, {{6}, -1}, {{7}, 7}}},
  };
}

graph::Tensor integers_of(const graph::TensorType& type, const std::vector<std::int64_t>& values) {
  graph::Tensor tensor = graph::Tensor::zeros(type);
  tensor.integers = values;
  return tensor;
}

class LooksAt : public testing::TestWithParam<Example> {};

TEST_P(LooksAt, TheRightElement) {
  Builder b;
  const Value value = GetParam().value(b);
  const Propagated made(finished(b, {value}), 0);
  ASSERT_GE(made.item, 0);
  std::vector<graph::Tensor> arguments;
  for (const NodeId id : made.graph.parameters()) {
    const graph::TensorType& type = made.graph.node(id).type();
    arguments.push_back(arguments.empty() ? graph::Tensor::zeros(type) : integers_of(type, GetParam().integers));
  }
  const std::vector<ItemId> loads = made.loads_of(0);
  ASSERT_EQ(loads.size(), 1U);
  const Item& load = made.program->at(loads[0]);
  ItemInterpreter interpreter(made.graph, *made.program, arguments);
  for (const Look& look : GetParam().looks) {
    std::int64_t element = 0;
    const Dims strides = graph::row_major_strides(made.graph.type(value).dims);
    for (std::size_t d = 0; d < look.at.size(); ++d) element += look.at[d] * strides[d];
    const std::vector<std::int64_t> axes = made.axes_at(element);
    const bool forbidden = load.guard >= 0 && interpreter.value(load.guard, axes) == 0;
    EXPECT_EQ(forbidden ? -1 : interpreter.index(load.index, axes), look.element) << "element " << element;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, LooksAt, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

// ---- any graph ----------------------------------------------------------------------------------------------------

class RandomItems : public testing::TestWithParam<int> {};

TEST_P(RandomItems, ComputeWhatTheGraphMeans) {
  graph::test::RandomGraphOptions options;
  options.seed = GetParam();
  options.operators = 12;
  options.most_elements = 200;
  options.reduce = 1;
  options.reduce_window = 1;
  if (GetParam() % 3 == 0) options.dtypes = {DType::f32, DType::s32};
  const Graph graph = graph::test::random_graph(options);
  const std::vector<graph::Tensor> arguments = graph::test::random_arguments(graph, options.seed);
  const auto expected = graph::evaluate(graph, arguments);
  ASSERT_TRUE(expected) << expected.error().message;
  Random random(options.seed);
  for (std::size_t r = 0; r < graph.results().size(); ++r) {
    const Propagated made(graph, r);
    if (made.item < 0) {
      // Only a reduction can be in the way, one too long to be done by whoever needs it.
      ASSERT_TRUE(made.program->blocking());
      const graph::Node& node = graph.node(*made.program->blocking());
      EXPECT_GT(graph.type(node.operands[0]).elements(), 16 * node.type().elements());
      continue;
    }
    ItemInterpreter interpreter(made.graph, *made.program, arguments);
    const std::int64_t elements = (*expected)[r].elements();
    for (int sample = 0; sample < 12 && elements > 0; ++sample) {
      const std::int64_t element = random.below(elements);
      const double right = (*expected)[r].at(element), got = interpreter.value(made.item, made.axes_at(element));
      if (std::isnan(right) && std::isnan(got)) continue;
      ASSERT_NEAR(got, right, 1e-9 * (1 + std::abs(right))) << "result " << r << " element " << element;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomItems, testing::Range(1, 41));

// ---- sharing ------------------------------------------------------------------------------------------------------

std::size_t count(const ScalarProgram& program, Item::Kind kind) {
  return std::count_if(program.items().begin(), program.items().end(),
                       [&](const Item& item) { return item.kind == kind; });
}

TEST(ScalarProgram, EqualRequestsShareOneItem) {
  Builder b;
  const Value x = parameter(b, {8, 6});
  const Value flat = b.reshape(x, {48}), again = b.reshape(b.reshape(flat, {6, 8}), {8, 6});
  const Value y = b.unary(Op::tanh, x);
  const Value sum = b.binary(Op::add, b.binary(Op::multiply, y, y), b.binary(Op::multiply, again, y));
  const Propagated made(finished(b, {sum}), 0);
  EXPECT_EQ(count(*made.program, Item::Kind::load), 1U);
  EXPECT_EQ(count(*made.program, Item::Kind::compute), 4U);  // tanh, two products, one sum
}

// None of the parts is at any of the indices that are asked for.
TEST(ScalarProgram, PaddingAroundAConcatenationReadsNoneOfIt) {
  Builder b;
  const Value x = b.parameter(DType::f32, {3}), both = b.concatenate({x, b.unary(Op::negate, x)}, 0);
  const Value padded = b.pad(both, b.scalar(DType::f32, 7), {10}, {0});
  const Propagated each(finished(b, {b.slice(padded, {2}, {6}, {1})}), 0);
  ASSERT_GE(each.item, 0);
  for (const Item& item : each.program->items()) {
    EXPECT_NE(item.kind, Item::Kind::load);
    for (const ItemId operand : item.operands) EXPECT_GE(operand, 0);
  }
}

TEST(ScalarProgram, AChainMayBeLongerThanTheStackIsDeep) {
  constexpr int length = 6000;
  Builder b;
  Value x = parameter(b, {64});
  for (int i = 0; i < length; ++i) x = b.unary(i % 2 == 0 ? Op::tanh : Op::negate, x);
  const Graph graph = finished(b, {x});
  stitch::test::on_stack_of(256 << 10, [&] {
    const Propagated made(graph, 0);
    ASSERT_GE(made.item, 0);
    EXPECT_EQ(count(*made.program, Item::Kind::compute), length);
    EXPECT_EQ(made.item, length) << "operands come first";
  });
}

TEST(ScalarProgram, DifferentIndicesAndGuardsDoNot) {
  Builder b;
  const Value x = parameter(b, {8, 8});
  const Propagated made(finished(b, {b.binary(Op::add, x, b.reverse(x, {1}))}), 0);
  EXPECT_EQ(count(*made.program, Item::Kind::load), 2U);
  Builder c;
  const Value y = parameter(c, {8});
  const Value padded = c.pad(c.slice(y, {0}, {6}), c.scalar(DType::f32, 0), {0}, {2});
  const Propagated guarded(finished(c, {c.binary(Op::add, y, padded)}), 0);
  const std::vector<ItemId> loads = guarded.loads_of(0);
  ASSERT_EQ(loads.size(), 2U);
  const Item &first = guarded.program->at(loads[0]), &second = guarded.program->at(loads[1]);
  EXPECT_EQ(first.index, second.index);
  EXPECT_NE(first.guard < 0, second.guard < 0);
}

TEST(ScalarProgram, ItemsKnowTheAxesTheyDependOn) {
  Builder b;
  const Value bias = parameter(b, {6}), scale = parameter(b, {8}), x = parameter(b, {8, 6});
  const Value y = b.binary(Op::add, x, b.broadcast(bias, {8, 6}, {1}));
  const Propagated made(finished(b, {b.binary(Op::multiply, y, b.broadcast(scale, {8, 6}, {0}))}), 0);
  ASSERT_EQ(made.program->axes().extents, (std::vector<std::int64_t>{8, 6}));
  EXPECT_EQ(made.program->at(made.loads_of(0).at(0)).axes.bits(), 0b10U);
  EXPECT_EQ(made.program->at(made.loads_of(1).at(0)).axes.bits(), 0b01U);
  EXPECT_EQ(made.program->at(made.loads_of(2).at(0)).axes.bits(), 0b11U);
  EXPECT_EQ(made.program->at(made.item).axes.bits(), 0b11U);
}

TEST(ScalarProgram, DynamicIndicesDependOnWhatTheirItemDependsOn) {
  Builder b;
  const Value table = parameter(b, {500, 96}), at = b.parameter(DType::s32, {300, 1});
  const Propagated made(finished(b, {b.add(Op::gather, {table, at}, row_gather(96))}), 0);
  const Item& load = made.program->at(made.loads_of(0).at(0));
  EXPECT_EQ(load.axes.bits(), 0b11U);
  EXPECT_EQ(made.program->items_of(load.index), made.loads_of(1));
  EXPECT_EQ(made.program->at(made.loads_of(1).at(0)).axes.bits(), 0b01U);
}

// ---- constants ----------------------------------------------------------------------------------------------------

TEST(ScalarProgram, ConstantsAreLiteralsWhereTheirElementIsKnown) {
  Builder b;
  const Value table = b.constant(graph::constant_from([] {
    graph::Tensor tensor = graph::Tensor::zeros({DType::f32, {4}});
    tensor.floats = {1, 2, 3, 4};
    return tensor;
  }()));
  const Value x = parameter(b, {4});
  const Value known = b.broadcast(b.reshape(b.slice(table, {2}, {3}), {}), {4}, {});
  const Propagated made(finished(b, {b.binary(Op::add, b.binary(Op::multiply, x, known), table)}), 0);
  EXPECT_EQ(count(*made.program, Item::Kind::literal), 1U);
  std::vector<Buffer::Kind> kinds;
  for (const Item& item : made.program->items()) {
    if (item.kind == Item::Kind::load) kinds.push_back(item.buffer.kind);
  }
  EXPECT_THAT(kinds, testing::UnorderedElementsAre(Buffer::Kind::input, Buffer::Kind::table));
}

// ---- reductions ---------------------------------------------------------------------------------------------------

TEST(ScalarProgram, SmallReductionsAreUnrolledAndLongOnesBlock) {
  for (const std::int64_t length : {2, 16, 17}) {
    Builder b;
    const Value x = parameter(b, {50, length});
    const Value sum = b.reduce(ReduceKind::sum, x, {1});
    const Propagated made(finished(b, {b.reverse(sum, {0})}), 0);
    if (length <= 16) {
      ASSERT_GE(made.item, 0);
      EXPECT_EQ(count(*made.program, Item::Kind::load), static_cast<std::size_t>(length));
      EXPECT_EQ(count(*made.program, Item::Kind::combine), static_cast<std::size_t>(length) - 1);
    } else {
      EXPECT_EQ(made.item, -1);
      EXPECT_EQ(made.program->blocking(), sum.node);
    }
  }
}

TEST(ScalarProgram, FinishedReductionsAreAtHandAtTheirOwnIndicesOnly) {
  Builder b;
  const Value x = parameter(b, {50, 300});
  const Value sum = b.reduce(ReduceKind::sum, x, {1});
  const Graph graph = finished(b, {b.unary(Op::exp, sum), b.reverse(sum, {0})});
  const AxisAnalysis analysis(graph);
  ScalarProgram program(graph, {0, 1}, {50, 300});
  const std::vector<Index> kept = program.canonical_indices(analysis, sum);
  program.set_reduced(sum.node, kept);
  const auto own = program.item(sum, kept);
  ASSERT_TRUE(own);
  EXPECT_EQ(program.at(*own).kind, Item::Kind::reduced);
  EXPECT_EQ(program.at(*own).axes.bits(), 0b01U);
  const auto other = program.item(sum, {program.pool().offset(kept[0], 1)});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::constraint);
  EXPECT_EQ(program.blocking(), sum.node);
}

TEST(ScalarProgram, StoredValuesAreRead) {
  Builder b;
  const Value y = b.unary(Op::tanh, parameter(b, {8, 6}));
  const Graph graph = finished(b, {b.unary(Op::exp, y)});
  const AxisAnalysis analysis(graph);
  ScalarProgram program(graph, {0}, {48});
  program.set_stored(
      std::make_shared<StoredValues>(StoredValues{{y, StoredValue{{Buffer::Kind::scratch, 2}, {8, 6}}}}));
  const Value result = graph.results()[0];
  ASSERT_TRUE(program.item(result, program.canonical_indices(analysis, result)));
  ASSERT_EQ(program.items().size(), 2U);
  EXPECT_EQ(program.items()[0].buffer, (Buffer{Buffer::Kind::scratch, 2}));
  EXPECT_EQ(program.items()[0].index, program.axes().variables[0]);
}

// ---- targets ------------------------------------------------------------------------------------------------------

TEST(ScalarProgram, UpdatesGoWhereTheStartPointsClamped) {
  const Graph graph = cache_update(2, 10, 4, true);
  const AxisAnalysis analysis(graph);
  const graph::Node& update = graph.node(graph.results()[0].node);
  const std::vector<int> axes = analysis.of(update.operands[1]);
  ScalarProgram program(graph, axes, {2, 4});
  const auto target =
      update_target(program, graph.results()[0].node, program.canonical_indices(analysis, update.operands[1]));
  ASSERT_TRUE(target);
  EXPECT_EQ(target->guard, -1);
  for (const auto& [start, row] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {7, 7}, {12, 9}, {-1, 0}}) {
    const std::vector<graph::Tensor> arguments = {graph::Tensor::zeros({DType::f32, {2, 10, 4}}),
                                                  graph::Tensor::zeros({DType::f32, {2, 1, 4}}),
                                                  integers_of({DType::s32, {}}, {start})};
    ItemInterpreter interpreter(graph, program, arguments);
    std::vector<std::int64_t> at;
    for (const Index index : target->indices) at.push_back(interpreter.index(index, {1, 3}));
    EXPECT_EQ(at, (std::vector<std::int64_t>{1, row, 3})) << start;
  }
}

TEST(ScalarProgram, ScattersDropWindowsThatDoNotFit) {
  const Graph graph = scattered(10, 4, 5);
  const AxisAnalysis analysis(graph);
  const NodeId scatter = graph.results()[0].node;
  const Value updates = graph.node(scatter).operands[2];
  ScalarProgram program(graph, analysis.of(updates), {5, 4});
  const auto target = scatter_target(program, scatter, program.canonical_indices(analysis, updates));
  ASSERT_TRUE(target);
  ASSERT_GE(target->guard, 0);
  const std::vector<std::int64_t> rows = {3, 9, 10, -1, 0};
  const std::vector<graph::Tensor> arguments = {graph::Tensor::zeros({DType::f32, {10, 4}}),
                                                integers_of({DType::s32, {5, 1}}, rows),
                                                graph::Tensor::zeros({DType::f32, {5, 4}})};
  ItemInterpreter interpreter(graph, program, arguments);
  for (std::int64_t u = 0; u < 5; ++u) {
    const std::int64_t row = rows[u];
    const bool fits = row >= 0 && row < 10;
    EXPECT_EQ(interpreter.value(target->guard, {u, 2}), fits ? 1 : 0) << row;
    if (!fits) continue;
    EXPECT_EQ(interpreter.index(target->indices[0], {u, 2}), row);
    EXPECT_EQ(interpreter.index(target->indices[1], {u, 2}), 2);
  }
}

TEST(ScalarProgram, EveryElementKnowsTheUpdatesThatHitIt) {
  const Graph graph = scattered(10, 4, 5);
  const AxisAnalysis analysis(graph);
  const NodeId scatter = graph.results()[0].node;
  ScalarProgram program(graph, {analysis.of(Value{scatter, 0}).at(0), 99}, {10 * 4, 5});
  const auto term =
      scatter_term(program, scatter, program.canonical_indices(analysis, {scatter, 0}), program.axes().variables[1]);
  ASSERT_TRUE(term);
  const std::vector<std::int64_t> rows = {3, 9, 10, -1, 3};
  graph::Tensor updates = graph::Tensor::zeros({DType::f32, {5, 4}});
  for (std::size_t i = 0; i < 20; ++i) updates.floats[i] = 100 + i;
  const std::vector<graph::Tensor> arguments = {graph::Tensor::zeros({DType::f32, {10, 4}}),
                                                integers_of({DType::s32, {5, 1}}, rows), updates};
  ItemInterpreter interpreter(graph, program, arguments);
  for (std::int64_t element = 0; element < 40; ++element) {
    for (std::int64_t u = 0; u < 5; ++u) {
      const bool hits = rows[u] == element / 4;
      EXPECT_EQ(interpreter.value(term->hits, {element, u}), hits ? 1 : 0) << element << " " << u;
      if (hits) {
        EXPECT_EQ(interpreter.value(term->update, {element, u}), 100 + u * 4 + element % 4);
      }
    }
  }
}

}  // namespace
}  // namespace stitch::kernel::test
