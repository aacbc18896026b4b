#include "graph/softmax.h"

#include <cmath>
#include <limits>
#include <utility>

#include "graph/dot_dimensions.h"
#include "graph/fill.h"

namespace stitch::graph {
namespace {

bool reduces_by(const Node& node, ReduceKind kind) {
  return node.op == Op::reduce && node.as<ReduceAttributes>().kind == kind;
}

/// The maximum of which `value` says where it is −∞.
std::optional<Value> asked_for_empty(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  if (node.op != Op::compare || node.as<CompareAttributes>().direction != Comparison::eq) return std::nullopt;
  // In whichever order: a canonical form has its own.
  for (const int side : {0, 1}) {
    if (fill_number(graph, node.operands[1 - side]) == -std::numeric_limits<double>::infinity())
      return node.operands[side];
  }
  return std::nullopt;
}

/// The maximum m of which `value` is m itself or m where that is finite, or not −∞, and 0 elsewhere.
std::optional<ExpSum> base_of(const Graph& graph, Value value) {
  ExpSum found;
  const Node& from = graph.node(value.node);
  found.maximum = value.node;
  if (from.op == Op::reduce) return found;
  if (from.op != Op::select) return std::nullopt;
  if (const auto empty = asked_for_empty(graph, from.operands[0])) {
    found.base = ExpSum::Base::not_empty;
    found.maximum = empty->node;
    const bool same = *empty == from.operands[2] && fill_number(graph, from.operands[1]) == 0.0;
    return same ? std::optional(found) : std::nullopt;
  }
  const Node& finite = graph.node(from.operands[0].node);
  found.base = ExpSum::Base::finite;
  found.maximum = from.operands[1].node;
  const bool same = finite.op == Op::is_finite && finite.operands[0] == from.operands[1] &&
                    fill_number(graph, from.operands[2]) == 0.0;
  return same ? std::optional(found) : std::nullopt;
}

struct Quotient {
  Value dividend, divisor;
  double scale = 1;
};

/// A factor of rows that is a number divided by something, times numbers.
std::optional<Quotient> reciprocal_of(const Graph& graph, Value factor) {  // NOLINT(misc-no-recursion): of few factors
  const Node& node = graph.node(factor.node);
  if (node.op == Op::broadcast || node.op == Op::reshape) return reciprocal_of(graph, node.operands[0]);
  if (node.op == Op::divide) {
    const auto number = fill_number(graph, node.operands[0]);
    return number ? std::optional(Quotient{{}, node.operands[1], *number}) : std::nullopt;
  }
  if (node.op != Op::multiply) return std::nullopt;
  for (const int side : {0, 1}) {
    const auto number = fill_number(graph, node.operands[side]);
    auto found = number ? reciprocal_of(graph, node.operands[1 - side]) : std::nullopt;
    if (!found) continue;
    found->scale *= *number;
    return found;
  }
  return std::nullopt;
}

/// What the elements of a row are divided by: the operand of a division, or of a multiplication by its reciprocal.
std::optional<Quotient> quotient_of(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  if (node.op == Op::divide) return Quotient{node.operands[0], node.operands[1]};
  if (node.op != Op::multiply) return std::nullopt;
  for (const int side : {0, 1}) {
    auto found = reciprocal_of(graph, node.operands[side]);
    if (!found) continue;
    found->dividend = node.operands[1 - side];
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ExpSum> match_exp_sum(const Graph& graph, NodeId sum) {
  if (!reduces_by(graph.node(sum), ReduceKind::sum)) return std::nullopt;
  const Value summed = graph.node(sum).operands[0];
  const Dims& along = graph.node(sum).as<ReduceAttributes>().dimensions;
  const Node& exponential = graph.node(summed.node);
  if (exponential.op != Op::exp) return std::nullopt;
  const Node& difference = graph.node(exponential.operands[0].node);
  if (difference.op != Op::subtract) return std::nullopt;
  const Node& repeated = graph.node(difference.operands[1].node);
  if (repeated.op != Op::broadcast) return std::nullopt;
  const std::size_t rank = graph.type(summed).dims.size();
  if (repeated.as<BroadcastAttributes>().mapping != free_dimensions(rank, {}, along)) return std::nullopt;
  std::optional<ExpSum> found = base_of(graph, repeated.operands[0]);
  if (!found) return std::nullopt;
  const Node& greatest = graph.node(found->maximum);
  const bool same = reduces_by(greatest, ReduceKind::max) && greatest.operands[0] == difference.operands[0] &&
                    greatest.as<ReduceAttributes>().dimensions == along;
  if (!same) return std::nullopt;
  found->exponential = summed.node;
  found->of = difference.operands[0];
  found->along = along;
  return found;
}

std::optional<Softmax> match_softmax(const Graph& graph, Value value) {
  const auto quotient = quotient_of(graph, value);
  if (!quotient) return std::nullopt;
  Value sum = quotient->divisor;
  if (graph.node(sum.node).op == Op::broadcast) sum = graph.node(sum.node).operands[0];
  std::optional<Value> empty;
  if (const Node& node = graph.node(sum.node); node.op == Op::select) {
    empty = asked_for_empty(graph, node.operands[0]);
    if (!empty || fill_number(graph, node.operands[1]) != 1.0) return std::nullopt;
    sum = node.operands[2];
  }
  const std::optional<ExpSum> found = match_exp_sum(graph, sum.node);
  if (!found || quotient->dividend.node != found->exponential) return std::nullopt;
  if (empty && empty->node != found->maximum) return std::nullopt;
  if (!std::isfinite(quotient->scale)) return std::nullopt;
  return Softmax{*found, quotient->scale, empty.has_value()};
}

}  // namespace stitch::graph
