#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Puts an associative-scan (or a scan, where a single operator combines) in place of one that is written out as a
/// recursion: combine neighbours by slices of stride 2, scan what is left, combine the other half with that, interleave
/// both by pads (jax.lax.associative_scan; Brent and Kung 1982).
///
/// Proved, not guessed. The combiner is read off from where the first neighbours are combined. From there on every
/// value is followed element by element: which component it is, and of which range [first, last] of the scanned
/// elements it is the combination. Slices, concatenations and pads move ranges; the combiner, found again operator by
/// operator, joins ranges that touch. A value whose element i has the range [0, i] is the scan. It may be computed in
/// another order because the combiner is associative, which is tried on several hundred triples in float64; one that is
/// not is left as it is, and so is a recursion of which others use the intermediate values.
///
/// Values: the order of combination, with `reassociate`. Expects: dead code removed. Stands before what changes slices
/// and pads.
Result<int> recognise_associative_scans(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
