#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Slices, pads, concatenations and reversals.
///
///  - slice of: slice, broadcast, concatenation (inside one part, or of whole parts), pad (inside, or fill alone),
///    reshape (where it is a slice of the operand), transpose, iota; of an element-wise operator that has no other
///    user: its operands are sliced instead;
///  - concatenation of one part, of concatenations, of neighbouring slices of one tensor, of equal repetitions; with a
///    repeated scalar at an end: a pad;
///  - pad by nothing, of a pad, of its own fill; a pad that only crops is a slice;
///  - a sum of zero-padded pieces that lie side by side is their concatenation (the gradient of a split):
///    pad(a) + pad(b) + pad(c)  →  concatenate(a, b, c);
///  - reversal of a reversal, and along repeated dimensions.
///
/// Guarantees: the limit of a slice is one behind the last element that it takes.
/// Exact (the sign of a zero aside: 0 + -0). Expects: extents of 1 taken out, layout chains merged.
Result<int> simplify_slices(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
