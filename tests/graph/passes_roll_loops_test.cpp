#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/unrolled/roll_loops.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph::testing {
namespace {

constexpr DType f32 = DType::f32;

std::int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

/// How a recurrence is written out.
struct Written {
  std::string name;
  std::int64_t turns = 96;
  bool backward = false;         ///< from the last place of the sequence to the first
  bool final_state = false;      ///< the last state is a result, too
  bool exchanged_first = false;  ///< the first turn has the operands of its sum the other way round
  bool other_weight = false;     ///< one turn in the middle has a weight of its own
  std::int64_t loops = 1;
};
void PrintTo(const Written& row, std::ostream* out) { *out << row.name; }

/// Two states: a running maximum, and a sum that is scaled by how much the maximum grows; as in a streaming softmax.
MakeGraph written_out(const Written& row) {
  return [row](Builder& b) {
    const Dims dims{2, 3}, part{2, 1, 3};
    const Value keys = b.parameter(f32, {2, row.turns, 3}), values = b.parameter(f32, {2, row.turns, 3});
    const Value weight = b.parameter(f32, {3}), other = b.parameter(f32, {3});
    Value top = b.filled(f32, dims, -1e30), sum = b.filled(f32, dims, 0);
    std::vector<Value> outputs(row.turns);
    for (std::int64_t turn = 0; turn < row.turns; ++turn) {
      const std::int64_t place = row.backward ? row.turns - 1 - turn : turn;
      const auto at = [&](Value x) { return b.reshape(b.slice(x, {0, place, 0}, {2, place + 1, 3}), dims); };
      const bool differs = row.other_weight && turn == row.turns / 2;
      const Value decay = b.broadcast(differs ? other : weight, dims, {1});
      const bool exchanged = row.exchanged_first && turn == 0;
      const Value decayed = exchanged ? b.binary(Op::add, decay, top) : b.binary(Op::add, top, decay);
      const Value grown = b.binary(Op::maximum, decayed, at(keys));
      const Value old_part = b.unary(Op::exp, b.binary(Op::subtract, decayed, grown));
      const Value new_part = b.unary(Op::exp, b.binary(Op::subtract, at(keys), grown));
      const Value scaled = b.binary(Op::multiply, old_part, sum);
      sum = b.binary(Op::add, scaled, b.binary(Op::multiply, new_part, at(values)));
      top = grown;
      outputs[place] = b.reshape(b.unary(Op::tanh, sum), part);
    }
    std::vector<Value> results{b.concatenate(outputs, 1)};
    if (row.final_state) results.push_back(top);
    return results;
  };
}

class WrittenOutLoops : public ::testing::TestWithParam<Written> {};

TEST_P(WrittenOutLoops, AreRolledUp) {
  const Graph before = tidy(made(written_out(GetParam())));
  const Graph after = run_pass(roll_loops, before, {}, GetParam().name);
  ASSERT_EQ(count(after, Op::loop), GetParam().loops) << to_text(after);
  expect_same_values(before, after, 3, 0, GetParam().name);
  if (GetParam().loops == 0) return;
  const auto loop = std::ranges::find(after.nodes(), Op::loop, &Node::op);
  EXPECT_EQ(loop->as<LoopAttributes>().trip_count, GetParam().turns);
  EXPECT_LE(after.size(), 24) << to_text(after);
}

INSTANTIATE_TEST_SUITE_P(Recurrences, WrittenOutLoops,
                         ::testing::Values(Written{.name = "forward"}, Written{.name = "backward", .backward = true},
                                           Written{.name = "final_state", .final_state = true},
                                           Written{.name = "exchanged_first", .exchanged_first = true},
                                           Written{.name = "other_weight", .other_weight = true, .loops = 0},
                                           Written{.name = "few_turns", .turns = 7, .loops = 0}),
                         [](const auto& each) { return each.param.name; });

TEST(RollLoops, LeavesRegionsAlone) {
  Graph graph = tidy(made(written_out({.name = "region"})));
  PassContext context;
  context.is_region = true;
  const auto changes = roll_loops(graph, context);
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes, 0);
}

}  // namespace
}  // namespace stitch::graph::testing
