#pragma once

#include "graph/graph.h"

// What the constraints tf32 and tf32x3 (graph/constraints.h) speak of.

namespace stitch::graph {

/// Whether a dot or convolution multiplies f32 by f32 and adds up to f32.
bool is_f32_product(const Graph& graph, const Node& node);

/// Those of the graph's constraints that anything in it depends on: of what products of f32 may be made means nothing
/// without one, and three products are not asked for where one will do.
Constraints relevant_constraints(const Graph& graph);

}  // namespace stitch::graph
