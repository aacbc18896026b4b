#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Removes nodes that no result needs; parameters stay. Operators have no side effects, opaque ones included.
///
/// Every pass leaves this to its rebuild; as a pass of its own it stands first, so that nothing is spent on what an
/// importer left behind. Returns how many nodes went. Exact.
Result<int> remove_dead_code(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
