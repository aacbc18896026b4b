#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/unrolled/roll_loops.h"
#include "graph/simplify.h"
#include "tests/graph/pass_case.h"
#include "tests/graph/written_out.h"

namespace stitch::graph::test {
namespace {

std::int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

struct Written {
  std::string name;
  WrittenOut how;
  std::int64_t loops = 1;
};
void PrintTo(const Written& row, std::ostream* out) { *out << row.name; }

MakeGraph written_out(const WrittenOut& how) {
  return [how](Builder& b) { return write_out(b, how); };
}

class WrittenOutLoops : public ::testing::TestWithParam<Written> {};

TEST_P(WrittenOutLoops, AreRolledUp) {
  const Graph before = tidy(made(written_out(GetParam().how)));
  const Graph after = run_pass(roll_loops, before, {}, GetParam().name);
  ASSERT_EQ(count(after, Op::loop), GetParam().loops) << to_text(after);
  expect_same_values(before, after, 3, 0, GetParam().name);
  if (GetParam().loops == 0) return;
  const auto loop = std::ranges::find(after.nodes(), Op::loop, &Node::op);
  EXPECT_EQ(loop->as<LoopAttributes>().trip_count, GetParam().how.turns);
  EXPECT_LE(after.size(), 24) << to_text(after);
}

INSTANTIATE_TEST_SUITE_P(Recurrences, WrittenOutLoops,
                         ::testing::Values(Written{"forward", {}}, Written{"backward", {.backward = true}},
                                           Written{"final_state", {.final_state = true}},
                                           Written{"exchanged_first", {.exchanged_first = true}},
                                           Written{"other_weight", {.other_weight = true}, 0},
                                           Written{"few_turns", {.turns = 7}, 0}),
                         [](const auto& each) { return each.param.name; });

struct Cell {
  std::string name;
  WrittenCell how;
  std::int64_t loops = 1;
};
void PrintTo(const Cell& row, std::ostream* out) { *out << row.name; }

class WrittenOutCells : public ::testing::TestWithParam<Cell> {};

TEST_P(WrittenOutCells, AreRolledUp) {
  const Graph before = tidy(made([](Builder& b) { return write_out(b, GetParam().how); }));
  const Graph after = tidy(run_pass(roll_loops, before, {}, GetParam().name));
  ASSERT_EQ(count(after, Op::loop), GetParam().loops) << to_text(after);
  expect_same_values(before, after, 5, 2e-6, GetParam().name);
  // The first turns differ, having nothing before them; and nothing of the others is left.
  if (GetParam().loops == 0) return;
  EXPECT_LE(count(after, Op::dot), 12) << to_text(after);
}

INSTANTIATE_TEST_SUITE_P(Recurrences, WrittenOutCells,
                         ::testing::Values(Cell{"state", {.input_product = false}}, Cell{"products", {}},
                                           Cell{"gradients", {.gradients = true}, 2},
                                           Cell{"long_gradients", {.turns = 60, .rows = 2, .gradients = true}, 2},
                                           Cell{"attention", {.scores = true}, 0}, Cell{"few_turns", {.turns = 7}, 0}),
                         [](const auto& each) { return each.param.name; });

TEST(RollLoops, LeavesAFewLargeProductsAroundCells) {
  Graph graph = made([](Builder& b) { return write_out(b, {.turns = 40, .gradients = true}); });
  const Graph before = graph;
  SimplifyOptions options;
  options.reassociate = true;
  ASSERT_TRUE(simplify(graph, options));
  EXPECT_EQ(count(graph, Op::loop), 2);
  EXPECT_LE(count(graph, Op::dot), 16) << "of 239, with those of the first and last turns:\n" << to_text(graph);
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::loop) continue;
    EXPECT_EQ(count(*node.regions.at(0), Op::dot), 1) << "of the state:\n" << to_text(graph);
  }
  expect_same_values(before, graph, 7, 1e-5, "simplified");
}

TEST(RollLoops, LeavesRegionsAlone) {
  Graph graph = tidy(made(written_out({})));
  PassContext context;
  context.is_region = true;
  const auto changes = roll_loops(graph, context);
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes, 0);
}

}  // namespace
}  // namespace stitch::graph::test
