#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::tuning {

/// A graph in which a product over a batch is two, of half of the batch each. What nobody but the product needs and
/// what leads to its operands along the batch (element by element, by reductions of other dimensions) is computed in
/// halves, too:
///
///     dot(softmax(s), v)   becomes   concatenate(dot(softmax(s₀), v₀), dot(softmax(s₁), v₁))
///
/// so that the two halves of an operand need not be in one piece of memory. Exact. Parameters and results stay. Errors:
/// invalid_argument (`product` is no dot over a batch of at least two).
Result<graph::Graph> halve_batch(const graph::Graph& graph, graph::NodeId product);

/// Whether halve_batch takes it.
bool has_batch(const graph::Node& product);

}  // namespace stitch::tuning
