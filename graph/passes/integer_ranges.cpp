#include "graph/passes/integer_ranges.h"

#include <cmath>

#include "graph/passes/range_analysis.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

/// Whether the node has no operator that a range could decide: an argument, or a splat in whatever form the layout
/// passes want it (with extents of 1 a reshaped broadcast).
bool is_source(const Rewriter& graph, const Node& node) {
  if (node.op == Op::constant || node.op == Op::parameter) return true;
  const bool is_layout = node.op == Op::broadcast || node.op == Op::reshape || node.op == Op::transpose;
  return is_layout && splat_constant(graph, node.operands[0]) != nullptr;
}

/// convert to a narrower integer, moved above its operand.
Replacement narrow(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const DType to = node.type().dtype, from = graph.dtype(x);
  if (!is_integer(to) || !is_integer(from) || byte_size(to) >= byte_size(from)) return {};
  const Node& inner = graph.node(x);
  switch (inner.op) {
    case Op::add:
    case Op::subtract:
    case Op::multiply:
    case Op::negate:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::bit_not: {
      std::vector<Value> operands;
      for (const Value& operand : inner.operands) operands.push_back(graph.convert(operand, to));
      return graph.add(inner.op, operands);
    }
    case Op::shift_left: {
      const auto by = splat_integer(graph, inner.operands[1]);
      if (!by || *by < 0 || *by >= 8 * byte_size(to)) return {};
      return graph.binary(Op::shift_left, graph.convert(inner.operands[0], to), graph.convert(inner.operands[1], to));
    }
    default: return {};
  }
}

Replacement without_effect(Rewriter& graph, RangeAnalysis& ranges, const Node& node) {
  const auto range = [&](std::size_t i) { return ranges.of(graph, node.operands[i]); };
  // Infinite ends say "not known" of 64-bit integers, and equal infinities prove nothing.
  const auto at_least = [](const ValueRange& a, const ValueRange& b) {
    return a.low >= b.high && std::isfinite(b.high) && !a.may_be_nan && !b.may_be_nan;
  };
  switch (node.op) {
    case Op::maximum:
      if (at_least(range(0), range(1))) return node.operands[0];
      if (at_least(range(1), range(0))) return node.operands[1];
      return {};
    case Op::minimum:
      if (at_least(range(0), range(1))) return node.operands[1];
      if (at_least(range(1), range(0))) return node.operands[0];
      return {};
    case Op::clamp:
      if (at_least(range(1), range(0)) && at_least(range(2), range(1))) return node.operands[1];
      return {};
    case Op::abs: return range(0).low >= 0 ? Replacement(node.operands[0]) : Replacement();
    case Op::remainder:
      if (is_floating(node.type().dtype) || range(0).low < 0 || range(0).high >= range(1).low) return {};
      return node.operands[0];
    case Op::bit_and: {
      const auto mask = splat_integer(graph, node.operands[1]);
      const std::uint64_t bits = mask.value_or(0);
      const bool ones = mask && *mask > 0 && (bits & (bits + 1)) == 0;
      if (ones && range(0).low >= 0 && range(0).high <= *mask) return node.operands[0];
      return {};
    }
    default: return {};
  }
}

Replacement integer_ranges_rule(Rewriter& graph, RangeAnalysis& ranges, const Node& node) {
  if (is_source(graph, node)) return {};
  const TensorType& type = node.type();
  if (!is_floating(type.dtype) && node.results.size() == 1) {
    const ValueRange range = ranges.of(graph, node);
    if (range.low == range.high) {
      return graph.broadcast(graph.scalar_integer(type.dtype, range.low), type.dims, {});
    }
  }
  if (Replacement replacement = without_effect(graph, ranges, node)) return replacement;
  if (node.op == Op::convert) {
    if (Replacement replacement = narrow(graph, node)) return replacement;
  }
  return {};
}

}  // namespace

Result<int> apply_integer_ranges(Graph& graph, const PassContext& context) {
  RangeAnalysis ranges(context.parameter_ranges);
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
    return integer_ranges_rule(rewriter, ranges, node);
  });
}

}  // namespace stitch::graph
