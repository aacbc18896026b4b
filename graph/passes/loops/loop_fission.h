#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Takes out of a loop's body what need not be computed turn by turn: one large product in the place of many small
/// ones.
///
/// A turn's slice of an invariant tensor, its write into a carried one: for loops of known length (at least 2) whose
/// counter gives every turn a place of its own along a dimension, forwards or backwards, never clamped.
///
///  - A dot of a turn's slice with an invariant is computed for all turns before the loop; turns slice its result.
///  - A carried tensor that is filled with a dot with an invariant, and read by nothing else, is one dot after the loop
///    over the other operand's values of all turns. If it is filled with slices of an invariant, it is this invariant.
///  - A sum that only grows is summed after the loop: dots contract the turns too, reductions reduce them too, and
///    concatenations, sums, differences and layouts consist of such. Floating sums ask for `reassociate`, and are of
///    f32 or f64: narrower ones round in every turn.
///
/// Values of all turns are found where they are already; otherwise the loop keeps them in a new carried tensor. Those,
/// and dots computed before the loop, are at most 1 MiB per turn and 1 GiB together. A rewrite takes a dot, a reduction
/// or a copied tensor out of the body and puts none in, so it all ends.
///
/// Values: sums in another order; the rest is exact. Expects regions just simplified with what is known of the counter,
/// so it stands before all that changes a loop's operands: otherwise indices that are not yet simple would hide where
/// values are found, and they would be kept twice. Does not enter regions.
Result<int> split_loops(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
