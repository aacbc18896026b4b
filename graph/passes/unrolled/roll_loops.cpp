#include "graph/passes/unrolled/roll_loops.h"

#include <algorithm>
#include <utility>

#include "graph/passes/dead_code.h"
#include "graph/passes/unrolled/rolled_loop.h"
#include "graph/passes/unrolled/step_pairs.h"
#include "graph/passes/unrolled/unrolled_loop.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t fewest_turns = 8;
/// What is less is one kernel as it is, in registers from the first turn to the last.
constexpr std::int64_t fewest_operators = 1024;
/// Of what a turn hands on, the part that does not fall apart into rows: it has to fit shared memory, twice.
constexpr std::int64_t most_row_bytes = std::int64_t{1} << 16;
constexpr std::int64_t most_turns_read = 16;

/// By line: whether what a turn hands to the next depends on it.
std::vector<bool> feeds_next_turn(const UnrolledLoop& loop) {
  std::vector<bool> feeds(loop.lines.size(), false);
  for (const auto& line : loop.lines) {
    for (const auto& operand : line.operands) {
      if (operand.kind == UnrolledLoop::Operand::Kind::turn_before) feeds[operand.line] = true;
    }
  }
  for (std::size_t i = loop.lines.size(); i-- > 0;) {
    if (!feeds[i]) continue;
    for (const auto& operand : loop.lines[i].operands) {
      if (operand.kind == UnrolledLoop::Operand::Kind::this_turn) feeds[operand.line] = true;
    }
  }
  return feeds;
}

bool runs_in_one_kernel(const Graph& graph, const UnrolledLoop& loop) {
  const std::vector<bool> feeds = feeds_next_turn(loop);
  std::int64_t operators = 0, handed_on = 0;
  const Dims* rows = nullptr;
  for (std::size_t i = 0; i < loop.lines.size(); ++i) {
    const auto& line = loop.lines[i];
    const Node& node = graph.node(line.nodes[0]);
    if (!line.hands_on) continue;
    operators += loop.turns;
    if (!feeds[i]) continue;
    handed_on += node.type().bytes();
    if (!is_elementwise(node.op) || (rows != nullptr && *rows != node.type().dims)) return false;
    rows = &node.type().dims;
  }
  if (operators < fewest_operators || rows == nullptr || rows->empty()) return false;
  const std::int64_t most_rows = std::ranges::max(*rows);
  return most_rows > 1 && handed_on / most_rows <= most_row_bytes;
}

/// Whether what stays around the loop reads it as a whole: not if it goes on turn by turn, in operators that are
/// written out as the loop was.
bool few_turns_are_read(const Graph& rolled) {
  const auto reads_loop = [&](const Node& node) {
    return node.op == Op::slice && rolled.node(node.operands[0].node).op == Op::loop;
  };
  return std::ranges::count_if(rolled.nodes(), reads_loop) <= most_turns_read;
}

}  // namespace

Result<int> roll_loops(Graph& graph, const PassContext& context) {
  if (context.is_region || graph.size() < fewest_operators) return 0;
  if (repeated_steps(graph, kinds_of(graph), fewest_turns).empty()) return 0;
  int changes = 0;
  Graph work = with_shared_layouts(graph);
  for (;;) {
    Result<Graph> next = Graph();
    const auto accepts = [&](const UnrolledLoop& loop) {
      if (!runs_in_one_kernel(work, loop)) return false;
      next = rolled(work, loop);
      return !next.ok() || few_turns_are_read(*next);
    };
    if (!find_unrolled_loop(work, fewest_turns, accepts)) break;
    if (!next) return next.error();
    work = std::move(*next);
    STITCH_TRY(remove_dead_code(work, context));
    ++changes;
  }
  if (changes > 0) graph = std::move(work);
  return changes;
}

}  // namespace stitch::graph
