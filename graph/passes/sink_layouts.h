#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Moves reshapes and transposes down through element-wise operators where no layout operator is added by it: all
/// operands come through the same reshape (or transpose), or are broadcasts and splats that can be written in the
/// other shape, and at least one of the moved operators has no other user:
///
///     reshape(a) · reshape(b)           →  reshape(a · b)
///     transpose(a) + broadcast(bias)    →  transpose(a + broadcast'(bias))
///
/// A transpose between a dot and a widening conversion stays: the library writes transposed results.
///
/// Expects: layout chains merged. Guarantees: what reaches a boundary or a reduction through several element-wise
/// operators has its layout changed once. Exact. Stands behind sink_broadcasts, so that a broadcast operand is there
/// only where it is needed.
Result<int> sink_layouts(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
