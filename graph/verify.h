#pragma once

#include "base/result.h"
#include "graph/graph.h"

// What holds for every graph that is handed on. Codecs and importers verify what they read, simplify (when asked) what
// each pass leaves, tests everything; code behind them may rely on it and only asserts. An error reads
//
//     node 12 (add 'residual'): operand 1 is f16, operand 0 is f32

namespace stitch::graph {

/// Checks every invariant of Graph (graph/graph.h) including those of its regions, by inferring all types anew.
/// The error names the node.
Status verify(const Graph& graph);

}  // namespace stitch::graph
