#pragma once

#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes/value_range.h"

namespace stitch::graph {

/// What a simplification pass knows besides the graph.
///
/// A pass is one free function `Result<int> name(Graph&, const PassContext&)`: it rewrites the graph in place, keeps
/// every parameter and the number, types and order of the results, leaves no dead nodes, and returns how many nodes it
/// replaced. An error (internal) is a bug of the pass; the graph is lost then. Passes do not enter regions unless they
/// say so: graph/simplify.h runs the whole list on each region.
struct PassContext {
  /// Allows what changes rounding beyond one operator: reassociated products, factors taken out of sums, reciprocals
  /// instead of divisions. docs/passes.md lists each rule that asks for it.
  bool reassociate = true;
  /// What is known about the values of the graph's parameters (a loop counter in its body); by position, may be short.
  std::vector<ValueRange> parameter_ranges;
  /// The graph is a region of a node: the body of a loop, a branch.
  bool is_region = false;
};

}  // namespace stitch::graph
