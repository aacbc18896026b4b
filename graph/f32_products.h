#pragma once

#include "graph/graph.h"

// What the constraints tf32, tf32x3, bf16x3 and winograd (graph/constraints.h) speak of.

namespace stitch::graph {

/// Whether a dot or convolution multiplies f32 by f32 and adds up to f32.
bool is_f32_product(const Graph& graph, const Node& node);

/// Whether a node is a convolution that Winograd's transforms (graph/winograd.h) are made for: two spatial dimensions
/// in any layout, a window of 3 × 3, strides, dilations and groups of 1, any padding and extents (but none of 0),
/// reversed or not, of f32 or f64 throughout. Gradients by the data of such convolutions are such again.
bool has_winograd_form(const Graph& graph, const Node& node);

/// Whether `winograd` is granted and used: not beside what tensor cores multiply, which makes multiplications cheaper
/// than the transforms' traffic and whose rounding the transforms would magnify; not where every operator is rounded by
/// itself; nor where bits must not depend on the batch, on which it depends which way is faster.
bool by_winograd(const Constraints& constraints);

/// Those of the graph's constraints that anything in it depends on: of what products of f32 may be made means nothing
/// without one, and of several ways that are granted the fastest is the one that is asked for. `winograd` means nothing
/// without such a convolution of f32, nor where it is not used.
Constraints relevant_constraints(const Graph& graph);

}  // namespace stitch::graph
