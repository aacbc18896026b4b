#include "graph/passes/sink_layouts.h"

#include <algorithm>
#include <optional>

#include "graph/infer_checks.h"
#include "graph/passes/dim_groups.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

/// A layout change that is to move from above an operator to below it.
struct Move {
  Op op = Op::reshape;
  Dims from;         ///< shape above it
  Dims permutation;  ///< of a transpose
};

/// The layout change above `operand`, if there is one.
std::optional<Move> move_above(const Rewriter& graph, Value operand) {
  const Op op = graph.node(operand).op;
  if (op != Op::reshape && op != Op::transpose) return std::nullopt;
  Move move{op, graph.dims(graph.operand(operand)), {}};
  // Extents of 1 stay above: drop_unit_dimensions takes them out there.
  if (op == Op::reshape && contains(move.from, 1)) return std::nullopt;
  if (op == Op::transpose) move.permutation = graph.node(operand).as<TransposeAttributes>().permutation;
  return move;
}

bool is_moved(const Rewriter& graph, Value operand, const Move& move) {
  if (!graph.is(operand, move.op) || graph.dims(graph.operand(operand)) != move.from) return false;
  return move.op == Op::reshape || graph.node(operand).as<TransposeAttributes>().permutation == move.permutation;
}

/// How a broadcast below the move is written above it: of the operand in another shape.
struct Above {
  Dims operand_dims;
  BroadcastAttributes attributes;
};

std::optional<Above> broadcast_above(const Rewriter& graph, Value broadcast, const Move& move) {
  const auto& a = graph.node(broadcast).as<BroadcastAttributes>();
  Above above{{}, {move.from, {}}};
  if (move.op == Op::transpose) {
    above.operand_dims = graph.dims(graph.operand(broadcast));
    for (const std::int64_t d : a.mapping) above.attributes.mapping.push_back(move.permutation[d]);
    if (!std::is_sorted(above.attributes.mapping.begin(), above.attributes.mapping.end())) return std::nullopt;
    return above;
  }
  const auto groups = dim_groups(move.from, a.dims);
  if (!groups) return std::nullopt;
  for (const DimGroup& group : *groups) {
    const auto mapped = std::count_if(a.mapping.begin(), a.mapping.end(),
                                      [&](std::int64_t d) { return d >= group.to_begin && d < group.to_end; });
    if (mapped == 0) continue;
    if (mapped != group.to_end - group.to_begin) return std::nullopt;  // the group mixes mapped and repeated dimensions
    for (int d = group.from_begin; d < group.from_end; ++d) {
      above.operand_dims.push_back(move.from[d]);
      above.attributes.mapping.push_back(d);
    }
  }
  return above;
}

/// A matmul writes its result transposed for nothing, but not widened: between the two the transpose stays above.
bool belongs_to_contraction(const Rewriter& graph, const Node& node, const Move& move) {
  if (node.op != Op::convert || move.op != Op::transpose) return false;
  const Value source = graph.operand(node.operands[0]);
  const DType from = graph.node(node.operands[0]).type().dtype;
  return graph.is(source, Op::dot) && byte_size(node.type().dtype) > byte_size(from);
}

Replacement sink(Rewriter& graph, const Node& node, const Move& move) {
  if (belongs_to_contraction(graph, node, move)) return {};
  bool saves = false;
  for (const Value& operand : node.operands) {
    if (is_moved(graph, operand, move)) {
      saves = saves || graph.uses(operand) <= std::count(node.operands.begin(), node.operands.end(), operand);
    } else if (!graph.is(operand, Op::broadcast) || !broadcast_above(graph, operand, move)) {
      return {};
    }
  }
  if (!saves) return {};
  std::vector<Value> operands;
  for (const Value& operand : node.operands) {
    if (is_moved(graph, operand, move)) {
      operands.push_back(graph.operand(operand));
    } else {
      const Above above = *broadcast_above(graph, operand, move);
      const Value source = graph.reshape(graph.operand(operand), above.operand_dims);
      operands.push_back(graph.broadcast(source, above.attributes.dims, above.attributes.mapping));
    }
  }
  const Value value = graph.add(node.op, operands, node.attributes);
  std::vector<Value> results;
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    const Value above{value.node, value.result + static_cast<std::int32_t>(i)};
    results.push_back(move.op == Op::reshape ? graph.reshape(above, node.results[i].dims)
                                             : graph.transpose(above, move.permutation));
  }
  return results;
}

Replacement sink_layouts_rule(Rewriter& graph, const Node& node) {
  if (!is_elementwise(node.op)) return {};
  for (const Value& operand : node.operands) {
    const std::optional<Move> move = move_above(graph, operand);
    if (move) return sink(graph, node, *move);
  }
  return {};
}

}  // namespace

Result<int> sink_layouts(Graph& graph, const PassContext&) { return rewrite(graph, sink_layouts_rule); }

}  // namespace stitch::graph
