#include "graph/passes/loop_turns.h"

#include <algorithm>
#include <cstdlib>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/range_analysis.h"
#include "graph/passes/regions.h"
#include "graph/passes/trip_count.h"

namespace stitch::graph {
namespace {

// Beyond these nothing is taken as known: the arithmetic on lines stays far from overflow.
constexpr std::int64_t most_turns = std::int64_t{1} << 31;
constexpr std::int64_t most_first = std::int64_t{1} << 40, most_step = std::int64_t{1} << 20;

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
  uses_.assign(at(body().size()), 0);
  for (const Node& node : body().nodes()) {
    for (const Value& operand : node.operands) ++uses_[at(operand.node)];
  }
  for (const Value& result : body().results()) ++uses_[at(result.node)];
  find_lines(graph);
  if (known()) find_writes();
}

void LoopTurns::find_invariants() {
  const Graph& inside = body();
  invariant_.assign(at(inside.size()), true);
  for (std::size_t i = 0; i < carried(); ++i) {
    const Value parameter{inside.parameters()[i], 0};
    invariant_[at(parameter.node)] = inside.results()[i] == parameter;
  }
  for (NodeId id = 0; id < inside.size(); ++id) {
    const Node& node = inside.node(id);
    const bool depends = std::any_of(node.operands.begin(), node.operands.end(),
                                     [&](const Value& operand) { return !is_invariant(operand); });
    if (depends || holds_opaque(node)) invariant_[at(id)] = false;
  }
}

void LoopTurns::find_lines(const Rewriter& graph) {
  lines_.resize(at(body().size()));
  for (std::size_t i = 0; i < carried(); ++i) {
    // As carried_ranges does: where it knows the counter, the body's indices have been simplified by what it knows.
    const Node& start = graph.node(loop_.operands[i]);
    const auto step = counter_step(body(), i);
    if (!step || start.op != Op::constant || start.type().rank() != 0) continue;
    const DType dtype = start.type().dtype;
    const Line line{load_integer(dtype, start.as<ConstantAttributes>().data.data()), *step};
    if (std::abs(line.first) > most_first || std::abs(line.step) > most_step) continue;
    lines_[at(body().parameters()[i])] = line;
    const bool counts = std::abs(line.step) == 1 && fits({0, 1}, dtype);
    if (counts && !counter_) counter_ = i;
  }
  for (NodeId id = 0; id < body().size(); ++id) {
    const Node& node = body().node(id);
    if (node.op == Op::parameter || node.results.size() != 1 || node.type().rank() != 0) continue;
    const auto line = line_of(node);
    if (line && std::abs(line->first) <= most_first && std::abs(line->step) <= most_step) lines_[at(id)] = line;
  }
}

/// Sums and differences wrap, so a line is right modulo 2^bits; it is exact wherever it fits the dtype.
std::optional<LoopTurns::Line> LoopTurns::line_of(const Node& node) const {
  if (!is_integer(node.type().dtype)) return std::nullopt;
  if (node.op == Op::constant) {
    return Line{load_integer(node.type().dtype, node.as<ConstantAttributes>().data.data()), 0};
  }
  if (node.op != Op::add && node.op != Op::subtract && node.op != Op::negate && node.op != Op::convert) {
    return std::nullopt;
  }
  const auto& a = lines_[at(node.operands[0].node)];
  if (!a) return std::nullopt;
  if (node.op == Op::negate) return Line{-a->first, -a->step};
  if (node.op == Op::convert) {
    const DType from = body().type(node.operands[0]).dtype;
    return is_integer(from) && fits(*a, from) ? a : std::nullopt;
  }
  const auto& b = lines_[at(node.operands[1].node)];
  if (!b) return std::nullopt;
  const std::int64_t sign = node.op == Op::add ? 1 : -1;
  return Line{a->first + sign * b->first, a->step + sign * b->step};
}

bool LoopTurns::fits(const Line& line, DType dtype) const {
  const auto first = static_cast<double>(line.first);
  const double last = first + static_cast<double>(line.step) * static_cast<double>(trips_ - 1);
  const ValueRange all = range_of(dtype);
  return std::min(first, last) >= all.low && std::max(first, last) <= all.high;
}

std::optional<TurnAxis> LoopTurns::axis(const Dims& extents, const Dims& sizes, const Node& node,
                                        std::size_t first_start) const {
  std::optional<TurnAxis> found;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (sizes[d] == extents[d]) continue;  // whatever the start, it is clamped to 0
    const Value start = node.operands[first_start + d];
    const auto& line = lines_[at(start.node)];
    if (found || sizes[d] != 1 || extents[d] != trips_ || !line || !fits(*line, body().type(start).dtype)) return {};
    const bool forward = line->first == 0 && line->step == 1;
    if (!forward && !(line->first == trips_ - 1 && line->step == -1)) return {};
    found = TurnAxis{static_cast<std::int64_t>(d), !forward};
  }
  return found;
}

std::optional<TurnAxis> LoopTurns::read(Value slice) const {
  const Node& node = body().node(slice.node);
  if (node.op != Op::dynamic_slice || !is_invariant(node.operands[0])) return std::nullopt;
  return axis(body().type(node.operands[0]).dims, node.as<DynamicSliceAttributes>().sizes, node, 1);
}

void LoopTurns::find_writes() {
  for (std::size_t i = 0; i < carried(); ++i) {
    const Value result = without_reshapes(body(), body().results()[i]);
    const Node& node = body().node(result.node);
    if (node.op != Op::dynamic_update_slice) continue;
    if (without_reshapes(body(), node.operands[0]) != Value{body().parameters()[i], 0}) continue;
    const auto filled = axis(node.type().dims, body().type(node.operands[1]).dims, node, 2);
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
  const Line line = *lines_[at(body().parameters()[*counter_])];
  // The turn is (counter - first) · step.
  const std::int64_t slope = backward ? -line.step : line.step;
  const std::int64_t offset = (backward ? trips_ - 1 : 0) - slope * line.first;
  if (slope == 1 && offset == 0) return counter;
  const Value constant = copy.constant(dense_integers({copy.dtype(counter), {}}, std::span(&offset, 1)));
  return slope == 1 ? copy.binary(Op::add, counter, constant) : copy.binary(Op::subtract, constant, counter);
}

Value without_reshapes(const Graph& graph, Value value) {
  while (graph.node(value.node).op == Op::reshape) value = graph.node(value.node).operands[0];
  return value;
}

}  // namespace stitch::graph
