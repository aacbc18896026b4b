#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/passes/rewriter.h"
#include "graph/passes/value_range.h"

namespace stitch::graph {

/// Intervals of the values of a graph under construction, computed on demand and remembered. A node never changes once
/// it is made, so what has been computed stays right. Sound for wrapping integers (a result that may leave its dtype
/// is the whole dtype) and for rounded floating values (rounding is monotonic).
class RangeAnalysis {
 public:
  explicit RangeAnalysis(std::span<const ValueRange> parameters) : parameters_(parameters) {}

  [[nodiscard]] ValueRange of(const Rewriter& graph, Value value);
  /// The first result of a node that is not in the graph yet, though its operands are.
  [[nodiscard]] ValueRange of(const Rewriter& graph, const Node& node) { return compute(graph, node, 0); }

 private:
  ValueRange compute(const Rewriter& graph, const Node& node, std::int32_t result);
  ValueRange arithmetic(const Rewriter& graph, const Node& node);
  ValueRange bitwise(const Rewriter& graph, const Node& node);
  ValueRange comparison(const Rewriter& graph, const Node& node);
  ValueRange operand(const Rewriter& graph, const Node& node, std::size_t i) { return of(graph, node.operands[i]); }

  std::span<const ValueRange> parameters_;
  std::vector<std::optional<ValueRange>> known_;  // by node; results other than the first are not remembered
};

/// Everything a dtype can hold.
ValueRange range_of(DType dtype);

/// Whether the ends are below 2^53 in magnitude: then they are the very integers that they stand for.
bool is_exact(const ValueRange& range);

}  // namespace stitch::graph
