#pragma once

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// A scatter whose indices are constants, turned round: every place of the result knows which updates meet there (none,
/// or at most two; of updates that replace, the last one), and takes them by a gather with constant indices. In the
/// order of the updates, as the scatter combines them. No test of every update at every place, no atomic additions, no
/// zeros written first: of a triangle's gather in a recommender (2,048 × 27 × 27 from 351) what is written is what the
/// scatter writes, and what is read is what the updates have.
///
/// Exact but for sums of narrow floats that meet, which are rounded once. The indices may name rows (or any whole
/// slices) of the operand; nothing is replaced where they name parts of rows, of fewer than eight
/// updates, or where the table of places would be longer than 65,536 entries.
Replacement scatter_to_known_places(Rewriter& graph, const Node& node);

}  // namespace stitch::graph
