#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Rolls up recurrences that are written out turn by turn, as exporters and tracers without loops do it: a loop in the
/// place of thousands of operators.
///
/// Found by pairing every operator with its like in the turn before (unrolled/step_pairs.h), which proves that all
/// turns compute the same: from what they hand on, from slices of one tensor, each further on by its extent, and from
/// invariants. What is written out differently in the first or last turns stays outside.
///
/// Rolled up is what one kernel can then run turn by turn (docs/planning.md, recurrent kernels) and what is too much
/// for one without a loop: at least 8 turns and 1,024 operators, and what is handed on goes through nothing but
/// element-wise operators of one shape, so that every element is a row of its own. Layers that share their weights are
/// no such recurrence, nor are recurrent cells with products.
///
/// Exact. Not in regions: a loop in a loop's body would keep that from being one kernel. Expects: dead code removed.
/// Stands before all that treats the first turn, which begins with constants, differently from the others.
Result<int> roll_loops(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
