#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/scans/scan_site.h"

namespace stitch::graph {

/// A scan that is written out as a recursion, as far as it is known when its gradient is looked for.
struct WrittenScan {
  const Graph& graph;
  const Neighbours& site;
  const Graph& combiner;                ///< on scalars
  const std::map<Value, int>& results;  ///< the values that are the scan, by component
  const std::set<NodeId>& inside;       ///< what the recursion computes on its way to them
};

/// The gradient of a scan: what reverse differentiation has written of its recursion, level by level, as one scan in
/// the other direction. With y the scan's results, x its components and g the cotangent of the one component that has
/// any,
///
///     G_i = g_i + ∂y_{i+1}/∂y_i · G_{i+1},   gradient of x_i = ∂y_i/∂x_i · G_i.
struct ScanGradient {
  Value cotangent;
  std::vector<Value> gradients;             ///< the values that are replaced
  std::vector<std::vector<Value>> addends;  ///< by gradient: what the graph has added to it on its way
  std::vector<Value> jacobians;             ///< by gradient: the value that ∂y_i/∂x_i · G_i is read off from
  std::vector<bool> with_first;             ///< by gradient: whether the first element's is G_0, not 0
  std::set<NodeId> replaced;                ///< all nodes that computed them
  Value decay;                              ///< the value that ∂y_{i+1}/∂y_i · G_{i+1} is read off from

  /// As a function of y (all components), x (all components) and g, in this order, to the gradients. `reverse`: of
  /// operands whose scan begins at the end.
  [[nodiscard]] Result<Graph> formula(const WrittenScan& scan, RangeWalk& walk, bool reverse) const;
};

/// Looks for the gradient of a scan among the users of its recursion's values. The derivatives of a combination are
/// read off from where the first of them is taken, at the elements 2, 4, 6, … Whether the values that look like
/// gradients are what the formula gives is tried in float64 on lines of the scan's own length: of random numbers, of
/// factors near ±1 (so that the product of a whole line counts) and of -1, 0 and 1.
///
/// `walk` has followed the scan's components. Nothing when there is no such gradient, or when values of the recursion
/// would be left with other users than what is replaced. Errors: those of evaluation (internal).
Result<std::optional<ScanGradient>> find_scan_gradient(const WrittenScan& scan, RangeWalk& walk);

}  // namespace stitch::graph
