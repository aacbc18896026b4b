#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Computes on the small side of broadcasts: an element-wise operator whose operands all are broadcasts (or splats) is
/// applied before the broadcast, over the union of the dimensions that they map, when that leaves some dimension out:
///
///     broadcast(a:[8]) + broadcast(b:[8])  →  broadcast(a + b)
///     broadcast(a:[8]) · splat 2           →  broadcast(a · splat 2)
///
/// Expects: layout chains merged (broadcast of broadcast hides the mapping). Guarantees: no element-wise operator
/// repeats work along a dimension that no operand depends on. Exact. Stands before the arithmetic passes, which then
/// meet scalars instead of splats, and before folding of constants.
Result<int> sink_broadcasts(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
