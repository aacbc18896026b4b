#pragma once

#include "graph/graph.h"

// What the constraints tf32, tf32x3 and bf16x3 (graph/constraints.h) speak of.

namespace stitch::graph {

/// Whether a dot or convolution multiplies f32 by f32 and adds up to f32.
bool is_f32_product(const Graph& graph, const Node& node);

/// Those of the graph's constraints that anything in it depends on: of what products of f32 may be made means nothing
/// without one, and of several ways that are granted the fastest is the one that is asked for.
Constraints relevant_constraints(const Graph& graph);

}  // namespace stitch::graph
