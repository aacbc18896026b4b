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
constexpr std::ptrdiff_t most_lines = 1024;  ///< of a cell's turn: what one kernel may have

using Operand = UnrolledLoop::Operand;

/// Sums that grow by something in every turn, and that no turn reads: a gradient of weights. By line.
std::vector<bool> sums_over_turns(const Graph& graph, const UnrolledLoop& loop) {
  std::vector<bool> sums(loop.lines.size(), false);
  for (std::size_t i = 0; i < loop.lines.size(); ++i) sums[i] = graph.node(loop.lines[i].nodes[0]).op == Op::add;
  for (std::size_t i = 0; i < loop.lines.size(); ++i) {
    for (const Operand& operand : loop.lines[i].operands) {
      if (operand.line < 0) continue;
      const bool itself = operand.kind == Operand::Kind::turn_before && operand.line == static_cast<std::int32_t>(i);
      if (!itself) sums[operand.line] = false;
    }
  }
  return sums;
}

/// By line: whether what a turn hands to the next, but for lines of `without`, depends on it.
std::vector<bool> feeds_next_turn(const UnrolledLoop& loop, const std::vector<bool>& without) {
  std::vector<bool> feeds(loop.lines.size(), false);
  for (const auto& line : loop.lines) {
    for (const Operand& operand : line.operands) {
      if (operand.kind == Operand::Kind::turn_before) feeds[operand.line] = !without[operand.line];
    }
  }
  for (std::size_t i = loop.lines.size(); i-- > 0;) {
    if (!feeds[i]) continue;
    for (const Operand& operand : loop.lines[i].operands) {
      if (operand.kind == Operand::Kind::this_turn) feeds[operand.line] = true;
    }
  }
  return feeds;
}

/// Element-wise from turn to turn, on tensors of one shape.
bool is_elementwise_recurrence(const Graph& graph, const UnrolledLoop& loop) {
  const std::vector<bool> feeds = feeds_next_turn(loop, std::vector<bool>(loop.lines.size(), false));
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

/// From turn to turn through products with weights that are the same in all of them, and what a cell or its gradient
/// has around these. A product of two values of a turn, as attention has it, is a layer's.
bool is_recurrent_cell(const Graph& graph, const UnrolledLoop& loop) {
  const std::vector<bool> feeds = feeds_next_turn(loop, sums_over_turns(graph, loop));
  const auto is_weight = [](const Operand& operand) { return operand.kind == Operand::Kind::invariant; };
  bool products = false;
  for (std::size_t i = 0; i < loop.lines.size(); ++i) {
    if (!feeds[i]) continue;
    const Node& node = graph.node(loop.lines[i].nodes[0]);
    const bool is_product = node.op == Op::dot && std::ranges::count_if(loop.lines[i].operands, is_weight) == 1;
    products = products || is_product;
    const bool around = is_elementwise(node.op) || info(node.op).category == OpCategory::layout;
    if (!is_product && !around) return false;
  }
  return products && std::ssize(loop.lines) <= most_lines;
}

/// Places where what stands around loops goes on turn by turn, in operators that are written out as the loop was.
std::int64_t turns_read(const Graph& graph) {
  const auto reads_loop = [&](const Node& node) {
    return node.op == Op::slice && graph.node(node.operands[0].node).op == Op::loop;
  };
  return std::ranges::count_if(graph.nodes(), reads_loop);
}

struct Rolled {
  Graph graph;
  int loops = 0;
};

/// Nodes of a graph that is searched thoroughly.
constexpr std::int64_t most_searched = 8192;

/// What is looked for: cells with products, too, and how.
enum class Search : std::uint8_t { elementwise, cells, cells_thoroughly };

Result<Rolled> all_rolled(Graph graph, const PassContext& context, Search search) {
  Rolled done{.graph = std::move(graph)};
  for (;;) {
    const Graph& work = done.graph;
    Result<Graph> next = Graph();
    const auto accepts = [&](const UnrolledLoop& loop) {
      const bool cell = search != Search::elementwise && is_recurrent_cell(work, loop);
      if (!cell && !is_elementwise_recurrence(work, loop)) return false;
      next = rolled(work, loop);
      // A cell's gradients read its turns one by one until they are a loop, too.
      return cell || !next.ok() || turns_read(*next) - turns_read(work) <= most_turns_read;
    };
    if (!find_unrolled_loop(work, fewest_turns, search == Search::cells_thoroughly, accepts)) return done;
    if (!next) return next.error();
    done.graph = std::move(*next);
    STITCH_TRY(remove_dead_code(done.graph, context));
    ++done.loops;
  }
}

}  // namespace

Result<int> roll_loops(Graph& graph, const PassContext& context) {
  if (context.is_region) return 0;
  const bool cells = std::ranges::count(graph.nodes(), Op::dot, &Node::op) >= fewest_turns;
  if (!cells && graph.size() < fewest_operators) return 0;
  if (repeated_steps(graph, kinds_of(graph), fewest_turns).empty()) return 0;
  const Graph start = with_shared_layouts(graph);
  Rolled done;
  for (const Search search : {Search::cells, Search::cells_thoroughly, Search::elementwise}) {
    if (search != Search::elementwise && !cells) continue;
    if (search == Search::cells_thoroughly && start.size() > most_searched) continue;
    STITCH_ASSIGN(done, all_rolled(start, context, search));
    if (turns_read(done.graph) <= most_turns_read * done.loops) break;
  }
  if (done.loops > 0) graph = std::move(done.graph);
  return done.loops;
}

}  // namespace stitch::graph
