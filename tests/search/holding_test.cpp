#include "search/holding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/search/example_graphs.h"

namespace stitch::search::test {
namespace {

/// "load 0-1, exp 1-2": what is kept from which sweep until which.
std::string to_text(const ScalarProgram& program, const std::vector<HeldItem>& held) {
  std::string text;
  for (const HeldItem& each : held) {
    const Item& item = program.at(each.item);
    text += fmt::format("{}{} {}-{}", text.empty() ? "" : ", ",
                        item.kind == Item::Kind::load ? std::string_view("load") : to_string(item.op), each.from,
                        each.until);
  }
  return text;
}

struct Example {
  std::string name;
  std::function<Graph()> graph;
  std::string held;
  Hold hold = Hold::registers;
  std::uint64_t varying = 0b10;  ///< a thread has several columns of one row
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

/// x (of `dtype`) less its mean, squared and summed, then scaled: two reductions over the centred row.
Graph normalised(DType dtype) {
  Builder b;
  const Dims dims = {64, 256};
  const Value x = b.convert(b.parameter(dtype, dims), DType::f32);
  const Value centred = b.binary(Op::subtract, x, b.broadcast(b.reduce(ReduceKind::sum, x, {1}), dims, {0}));
  const Value squares = b.reduce(ReduceKind::sum, b.binary(Op::multiply, centred, centred), {1});
  return finished(b, {b.binary(Op::multiply, centred, b.broadcast(squares, dims, {0}))});
}

/// bias[column] + tanh(x) over its row's sum, the bias being read again
Graph biased_rows() {
  Builder b;
  const Dims dims = {64, 256};
  const Value x = b.parameter(DType::f32, dims), bias = b.broadcast(b.parameter(DType::f32, {256}), dims, {1});
  const Value y = b.binary(Op::add, b.unary(Op::tanh, x), bias);
  return finished(b, {b.binary(Op::divide, y, b.broadcast(b.reduce(ReduceKind::sum, y, {1}), dims, {0}))});
}

/// A log-softmax's sum and its gradient's share: the shifted row and its exponentials are both needed again.
Graph shifted_and_exponential() {
  Builder b;
  const Dims dims = {64, 256};
  const Value x = b.parameter(DType::f32, dims);
  const Value shifted = b.binary(Op::subtract, x, b.broadcast(b.reduce(ReduceKind::max, x, {1}), dims, {0}));
  const Value power = b.unary(Op::exp, shifted);
  const Value whole = b.reduce(ReduceKind::sum, power, {1});
  const Value rest = b.binary(Op::subtract, shifted, b.broadcast(b.unary(Op::log, whole), dims, {0}));
  const Value total = b.reduce(ReduceKind::sum, rest, {1});
  return finished(b, {b.binary(Op::multiply, power, b.broadcast(total, dims, {0}))});
}

std::vector<Example> examples() {
  return {
      // x for the difference; then exp, which costs more to compute again than its four bytes.
      {"softmax", [] { return softmax(64, 300); }, "load 0-1, exp 1-2"},
      {"softmax_in_shared_memory", [] { return softmax(64, 300); }, "load 0-1, exp 1-2", Hold::shared},
      {"both_are_kept", shifted_and_exponential, "load 0-1, subtract 1-2, exp 1-3", Hold::shared},
      {"one_is_kept_and_the_other_computed_of_it", shifted_and_exponential, "load 0-1, subtract 1-2, exp 2-3",
       Hold::shared_least},
      {"reload_holds_nothing", [] { return softmax(64, 300); }, "", Hold::reload},
      // The difference replaces x: as many bytes, and one operation less.
      {"normalised_f32", [] { return normalised(DType::f32); }, "load 0-1, subtract 1-2"},
      // Two bytes of x against four of the difference: two light operations are cheaper.
      {"normalised_bf16", [] { return normalised(DType::bf16); }, "load 0-2"},
      // Only the sum is kept, not its parts.
      {"biased_rows", biased_rows, "add 0-1"},
      // A thread with one element has it in a register anyway.
      {"one_element_a_thread", [] { return softmax(64, 300); }, "", Hold::registers, 0},
  };
}

GroupStructure group_of(const Graph& graph) {
  const AxisAnalysis analysis(graph);
  const auto structure = derive_structure(graph, analysis, {{1}, {}});
  if (!structure) {
    throw std::runtime_error(structure.error().message);
  }
  return structure->phases.at(0).groups.at(0);
}

class HeldBy : public testing::TestWithParam<Example> {};

TEST_P(HeldBy, Group) {
  const Graph graph = GetParam().graph();
  const GroupStructure group = group_of(graph);
  GroupMapping mapping;
  mapping.axes.resize(2), mapping.hold = GetParam().hold;
  const std::vector<HeldItem> held = choose_held(group, mapping, GetParam().varying, {});
  EXPECT_EQ(to_text(*group.program, held), GetParam().held);
  const Hold place = GetParam().hold == Hold::shared_least ? Hold::shared : GetParam().hold;
  for (const HeldItem& each : held) EXPECT_EQ(each.place, place);
}

INSTANTIATE_TEST_SUITE_P(Kernels, HeldBy, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

TEST(Holding, HoistedLoadsAreAtHand) {
  const Graph graph = softmax(64, 300);
  const GroupStructure group = group_of(graph);
  GroupMapping mapping;
  mapping.axes.resize(2);
  ItemId load = 0;
  while (group.program->at(load).kind != Item::Kind::load) ++load;
  EXPECT_EQ(to_text(*group.program, choose_held(group, mapping, 0b10, {load})), "exp 1-2");
}

TEST(Holding, BytesAreThoseOfWhatIsKept) {
  const auto bytes = [](Item::Kind kind, DType dtype) {
    Item item;
    item.kind = kind, item.dtype = dtype;
    return held_bytes(item);
  };
  EXPECT_EQ(bytes(Item::Kind::load, DType::bf16), 2);  // packed
  EXPECT_EQ(bytes(Item::Kind::compute, DType::bf16), 4);
  EXPECT_EQ(bytes(Item::Kind::compute, DType::f64), 8);
  EXPECT_EQ(bytes(Item::Kind::compute, DType::s64), 8);
  EXPECT_EQ(bytes(Item::Kind::compute, DType::u8), 4);
  EXPECT_EQ(bytes(Item::Kind::load, DType::u8), 1);
  EXPECT_EQ(bytes(Item::Kind::compute, DType::pred), 1);
}

TEST(Holding, DependenciesIncludeGuardsAndIndices) {
  Builder b;
  const Value table = b.parameter(DType::f32, {500, 96}), at = b.parameter(DType::s32, {300, 1});
  const Value rows = b.add(Op::gather, {table, at}, row_gather(96));
  const Graph graph = finished(b, {b.pad(rows, b.scalar(DType::f32, 0), {1, 0}, {0, 0})});
  const AxisAnalysis analysis(graph);
  const auto structure = derive_structure(graph, analysis, {});
  ASSERT_TRUE(structure);
  const GroupStructure& group = structure->phases[0].groups[0];
  const ScalarProgram& program = *group.program;
  for (ItemId i = 0; i < static_cast<ItemId>(program.items().size()); ++i) {
    const Item& item = program.at(i);
    if (item.kind != Item::Kind::load || item.buffer.number != 0) continue;
    const std::vector<ItemId> needed = dependencies(program, i);
    ASSERT_GE(item.guard, 0);
    EXPECT_THAT(needed, testing::Contains(item.guard));
    EXPECT_TRUE(is_inline(program, item.guard));  // a range test on an axis
    EXPECT_EQ(
        std::count_if(needed.begin(), needed.end(), [&](ItemId n) { return program.at(n).kind == Item::Kind::load; }),
        1);
  }
  EXPECT_EQ(roots_of(program, group.anchors[0]), group.anchors[0].items);
}

}  // namespace
}  // namespace stitch::search::test
