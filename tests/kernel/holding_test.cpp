#include "kernel/program/holding.h"
#include "kernel/structure/items.h"
#include "kernel/structure/structure_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <random>

#include "search/partition/min_cut.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
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
  AxisSet varying = AxisSet::of(1);  ///< a thread has several columns of one row
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

/// A softmax in f32 of a bf16 row: two bytes, or four of its exponential.
Graph widened_softmax() {
  Builder b;
  const Dims dims = {64, 300};
  const Value x = b.convert(b.parameter(DType::bf16, dims), DType::f32);
  const Value top = b.broadcast(b.reduce(ReduceKind::max, x, {1}), dims, {0});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, top));
  return finished(b, {b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {1}), dims, {0}))});
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
      {"the_exponential_is_kept", widened_softmax, "load 0-1, exp 1-2", Hold::shared},
      {"the_narrower_operand_is_kept", widened_softmax, "load 0-2", Hold::shared_least},
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
      {"one_element_a_thread", [] { return softmax(64, 300); }, "", Hold::registers, AxisSet()},
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
  mapping.axes.resize(2);
  mapping.hold = GetParam().hold;
  const std::vector<HeldItem> held = choose_held(ItemFlow(group), group, mapping.hold, GetParam().varying, {});
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
  EXPECT_EQ(to_text(*group.program, choose_held(ItemFlow(group), group, mapping.hold, AxisSet::of(1), {load})),
            "exp 1-2");
}

// ---- the same by cuts of the whole group ----------------------------------------------------------------------------

/// Prices in quarter "register bytes": holding four bytes costs 12, so a light operator is recomputed rather than its
/// result kept beside its operand, and an expensive one is not.
constexpr std::int64_t price_of_byte = 3, price_of_scarce_byte = 24;
constexpr std::int64_t price_light = 2, price_expensive = 40, price_reload = 4000, price_small_reload = 20;

std::int64_t recompute_price(const Item& item, AxisSet group_axes, Hold hold) {
  switch (item.kind) {
    case Item::Kind::literal:
    case Item::Kind::index:
    case Item::Kind::in_range:
    case Item::Kind::reduced: return 1;
    case Item::Kind::combine: return price_light;
    case Item::Kind::compute:
      if (hold == Hold::shared_least) return price_light;
      return graph::info(item.op).cost == graph::OpCost::expensive ? price_expensive : price_light;
    case Item::Kind::load: break;
  }
  // An operand that is broadcast along some axis comes from a cache the second time.
  return item.axes.contains_all(group_axes) ? price_reload : price_small_reload;
}

std::vector<bool> closure(const ScalarProgram& program, const std::vector<ItemId>& roots) {
  std::vector<bool> in(program.items().size(), false);
  std::vector<ItemId> open = roots;
  while (!open.empty()) {
    const ItemId item = open.back();
    open.pop_back();
    if (in[item]) continue;
    in[item] = true;
    for (const ItemId needed : dependencies(program, item)) open.push_back(needed);
  }
  return in;
}

std::vector<HeldItem> held_by_whole_cuts(const GroupStructure& structure, Hold hold, AxisSet varying,
                                         const std::vector<ItemId>& hoisted) {
  const ScalarProgram& program = *structure.program;
  std::vector<HeldItem> held;
  if (hold == Hold::reload || structure.sweep_count < 2) return held;
  const auto count = program.items().size();
  AxisSet group_axes;
  for (const Anchor& anchor : structure.anchors) group_axes |= anchor.axes;
  if (structure.partial_axis >= 0) group_axes.erase(structure.partial_axis);

  const Hold place = hold == Hold::registers ? Hold::registers : Hold::shared;
  std::map<ItemId, HeldItem> open;  // held across the boundary before
  for (int boundary = 0; boundary + 1 < structure.sweep_count; ++boundary) {
    std::vector<ItemId> early_roots, late_roots;
    for (const Anchor& anchor : structure.anchors) {
      auto& roots = anchor.sweep <= boundary ? early_roots : late_roots;
      const std::vector<ItemId> more = roots_of(program, anchor);
      roots.insert(roots.end(), more.begin(), more.end());
    }
    const std::vector<bool> early = closure(program, early_roots), late = closure(program, late_roots);
    // Node i: item i is computed after the boundary (source side). Node count + i: some user of it is.
    const int n = count, source = 2 * n, sink = 2 * n + 1;
    search::MinCut cut(2 * n + 2);
    for (ItemId i = 0; i < n; ++i) {
      const Item& item = program.at(i);
      if (!late[i]) continue;
      const bool stays = item.kind == Item::Kind::reduced || !item.axes.meets(varying);
      const bool available = structure.item_sweep[i] <= boundary && early[i];
      const bool in_registers = std::find(hoisted.begin(), hoisted.end(), i) != hoisted.end();
      if ((stays && available) || in_registers) {
        cut.edge(i, sink, search::MinCut::infinite);  // at hand for nothing
        continue;
      }
      if (available) {
        cut.edge(i, sink, recompute_price(item, group_axes, hold));
        cut.edge(n + i, i, (hold == Hold::shared_least ? price_of_scarce_byte : price_of_byte) * held_bytes(item));
      } else {
        cut.edge(n + i, i, search::MinCut::infinite);
      }
      for (const ItemId needed : dependencies(program, i)) cut.edge(i, n + needed, search::MinCut::infinite);
    }
    for (const ItemId root : late_roots) cut.edge(source, n + root, search::MinCut::infinite);
    const std::vector<bool> side = cut.source_side(source, sink);
    std::map<ItemId, HeldItem> now;
    for (ItemId i = 0; i < n; ++i) {
      const Item& item = program.at(i);
      if (!late[i] || !side[n + i] || side[i]) continue;
      if (item.kind == Item::Kind::reduced || !item.axes.meets(varying)) continue;
      if (std::find(hoisted.begin(), hoisted.end(), i) != hoisted.end()) continue;
      const auto before = open.find(i);
      HeldItem kept = before != open.end() ? before->second : HeldItem{i, boundary, boundary + 1, place, 0};
      kept.until = boundary + 1;
      now[i] = kept;
    }
    for (const auto& [item, kept] : open) {
      if (!now.contains(item)) held.push_back(kept);
    }
    open = std::move(now);
  }
  for (const auto& [item, kept] : open) held.push_back(kept);
  std::sort(held.begin(), held.end(),
            [](const HeldItem& a, const HeldItem& b) { return std::pair(a.from, a.item) < std::pair(b.from, b.item); });
  return held;
}

/// Rows that are computed, summed and computed again, at random.
Graph random_rows(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return random() % n; };
  Builder b;
  const Dims dims = {64, 256};
  std::vector<Value> values = {b.parameter(DType::f32, dims), b.convert(b.parameter(DType::f16, dims), DType::f32),
                               b.broadcast(b.parameter(DType::f32, {256}), dims, {1})};
  const std::array unary = {Op::exp, Op::tanh, Op::negate, Op::abs};
  const std::array binary = {Op::add, Op::multiply, Op::divide, Op::subtract};
  for (int step = 0; step < 30; ++step) {
    // Mostly of what is recent, so that several sweeps follow one another.
    const auto pick = [&] { return values[values.size() - 1 - std::min(below(values.size()), below(4) + below(4))]; };
    switch (below(4)) {
      case 0: values.push_back(b.unary(unary.at(below(unary.size())), pick())); break;
      case 1: values.push_back(b.broadcast(b.reduce(ReduceKind::sum, pick(), {1}), dims, {0})); [[fallthrough]];
      default: values.push_back(b.binary(binary.at(below(binary.size())), pick(), pick()));
    }
  }
  return finished(b, {values.back(), values[values.size() - 3]});
}

TEST(Holding, CutsFromTheFrontierAreThoseOfTheWholeGroup) {
  int most_sweeps = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_rows(seed);
    const GroupStructure group = group_of(graph);
    most_sweeps = std::max(most_sweeps, group.sweep_count);
    std::vector<ItemId> loads;
    for (std::size_t i = 0; i < group.program->items().size(); ++i) {
      if (group.program->items()[i].kind == Item::Kind::load) loads.push_back(i);
    }
    for (const Hold hold : {Hold::registers, Hold::shared, Hold::shared_least}) {
      for (const std::vector<ItemId>& hoisted : {std::vector<ItemId>{}, std::vector<ItemId>{loads.front()}}) {
        GroupMapping mapping;
        mapping.axes.resize(2);
        mapping.hold = hold;
        EXPECT_EQ(to_text(*group.program, choose_held(ItemFlow(group), group, mapping.hold, AxisSet::of(1), hoisted)),
                  to_text(*group.program, held_by_whole_cuts(group, hold, AxisSet::of(1), hoisted)));
      }
    }
  }
  EXPECT_GE(most_sweeps, 4);
}

TEST(Holding, BytesAreThoseOfWhatIsKept) {
  const auto bytes = [](Item::Kind kind, DType dtype) {
    Item item;
    item.kind = kind;
    item.dtype = dtype;
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
  for (ItemId i = 0; i < program.item_count(); ++i) {
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
}  // namespace stitch::kernel::test
