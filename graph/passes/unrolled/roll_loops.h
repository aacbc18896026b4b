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
/// Rolled up, from 8 turns, is
///
///  - what one kernel can then run turn by turn (docs/planning.md, recurrent kernels) and what is too much for one
///    without a loop: at least 1,024 operators, and what is handed on goes through nothing but element-wise operators
///    of one shape, so that every element is a row of its own;
///  - a recurrent cell: what is handed on goes through products with weights that are the same in all turns, at least
///    one, and element-wise operators and layouts around them. Products of what a turn hands on, for its output or a
///    gradient, and the sums of these over the turns are taken in, too; split_loops makes them one large product beside
///    the loop. The gradients' loop reads the states of the first one: only if all of them are loops, few single turns
///    are read and any is made; else those without products alone.
///
/// Layers that share their weights are no such recurrence: attention multiplies two values of a turn.
///
/// Exact. Not in regions: a loop in a loop's body would keep that from being one kernel. Expects: dead code removed.
/// Stands before all that treats the first turn, which begins with constants, differently from the others.
Result<int> roll_loops(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
