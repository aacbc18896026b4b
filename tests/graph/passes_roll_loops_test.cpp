#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/unrolled/roll_loops.h"
#include "tests/graph/pass_case.h"
#include "tests/graph/written_out.h"

namespace stitch::graph::testing {
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

TEST(RollLoops, LeavesRegionsAlone) {
  Graph graph = tidy(made(written_out({})));
  PassContext context;
  context.is_region = true;
  const auto changes = roll_loops(graph, context);
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes, 0);
}

}  // namespace
}  // namespace stitch::graph::testing
