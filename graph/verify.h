#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::graph {

/// Checks every invariant of Graph (graph/graph.h) including those of its regions, by inferring all types anew.
/// The error names the node.
Status verify(const Graph& graph);

}  // namespace stitch::graph
