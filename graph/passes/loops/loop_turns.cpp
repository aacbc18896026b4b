#include "graph/passes/loops/loop_turns.h"

#include <algorithm>
#include <cstdlib>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/regions.h"
#include "graph/strided_view.h"

namespace stitch::graph {
namespace {

/// Beyond it nothing is taken as known: the arithmetic on lines stays far from overflow.
constexpr std::int64_t most_turns = std::int64_t{1} << 31;

bool reads(const Graph& region, NodeId id) {
  const auto is_it = [&](const Value& value) { return value.node == id; };
  return std::any_of(region.results().begin(), region.results().end(), is_it) ||
         std::any_of(region.nodes().begin(), region.nodes().end(),
                     [&](const Node& node) { return std::any_of(node.operands.begin(), node.operands.end(), is_it); });
}

}  // namespace

LoopTurns::LoopTurns(const Rewriter& graph, const Node& loop)
    : loop_(loop), trips_(loop.as<LoopAttributes>().trip_count) {
  if (trips_ < 2 || trips_ > most_turns) return;
  find_invariants();
  for (std::size_t i = 0; i < carried(); ++i) {
    // Invariants that the body could make itself may be what its indices are compared with.
    if (is_invariant({body().parameters()[i], 0}) && is_closed(graph, loop.operands[i])) return;
    decides_.push_back(reads(condition(), condition().parameters()[i]));
  }
  uses_.assign(body().size(), 0);
  for (const Node& node : body().nodes()) {
    for (const Value& operand : node.operands) ++uses_[operand.node];
  }
  for (const Value& result : body().results()) ++uses_[result.node];
  find_lines(graph);
  if (known()) find_writes();
}

void LoopTurns::find_invariants() {
  const Graph& inside = body();
  invariant_.assign(inside.size(), true);
  for (std::size_t i = 0; i < carried(); ++i) {
    const Value parameter{inside.parameters()[i], 0};
    invariant_[parameter.node] = inside.results()[i] == parameter;
  }
  for (NodeId id = 0; id < inside.size(); ++id) {
    const Node& node = inside.node(id);
    const bool depends = std::any_of(node.operands.begin(), node.operands.end(),
                                     [&](const Value& operand) { return !is_invariant(operand); });
    if (depends || holds_opaque(node)) invariant_[id] = false;
  }
}

void LoopTurns::find_lines(const Rewriter& graph) {
  std::vector<std::optional<std::int64_t>> starts(carried());
  for (std::size_t i = 0; i < carried(); ++i) {
    // As carried_ranges does: where it knows the counter, the body's indices have been simplified by what it knows.
    const Node& start = graph.node(loop_.operands[i]);
    if (start.op != Op::constant || start.type().rank() != 0 || !is_integer(start.type().dtype)) continue;
    starts[i] = load_integer(start.type().dtype, start.as<ConstantAttributes>().data.data());
  }
  lines_.emplace(body(), starts, trips_);
  for (std::size_t i = 0; i < carried() && !counter_; ++i) {
    const NodeId parameter = body().parameters()[i];
    const auto& line = lines_->of(parameter);
    const bool counts = line && std::abs(line->step) == 1 && lines_->fits({0, 1}, body().node(parameter).type().dtype);
    if (counts) counter_ = i;
  }
}

std::optional<TurnAxis> LoopTurns::read(Value slice) const {
  const Node& node = body().node(slice.node);
  if (node.op != Op::dynamic_slice || !is_invariant(node.operands[0])) return std::nullopt;
  return lines_->axis(body().type(node.operands[0]).dims, node.as<DynamicSliceAttributes>().sizes, node, 1);
}

void LoopTurns::find_writes() {
  for (std::size_t i = 0; i < carried(); ++i) {
    const Value result = without_reshapes(body(), body().results()[i]);
    const Node& node = body().node(result.node);
    if (node.op != Op::dynamic_update_slice) continue;
    if (without_reshapes(body(), node.operands[0]) != Value{body().parameters()[i], 0}) continue;
    const auto filled = lines_->axis(node.type().dims, body().type(node.operands[1]).dims, node, 2);
    if (filled) writes_.push_back({i, node.operands[1], result.node, *filled});
  }
}

bool LoopTurns::usually_backward() const {
  if (!writes_.empty()) return writes_[0].axis.backward;
  for (NodeId id = 0; id < body().size(); ++id) {
    if (const auto found = read({id, 0})) return found->backward;
  }
  return false;
}

Value LoopTurns::place(Builder& copy, const std::vector<Value>& parameters, bool backward) const {
  const Value counter = parameters[*counter_];
  const TurnLines::Line line = *lines_->of(body().parameters()[*counter_]);
  // The turn is (counter - first) · step.
  const std::int64_t slope = backward ? -line.step : line.step;
  const std::int64_t offset = (backward ? trips_ - 1 : 0) - slope * line.first;
  if (slope == 1 && offset == 0) return counter;
  const Value constant = copy.constant(dense_integers({copy.dtype(counter), {}}, std::span(&offset, 1)));
  return slope == 1 ? copy.binary(Op::add, counter, constant) : copy.binary(Op::subtract, constant, counter);
}

}  // namespace stitch::graph
