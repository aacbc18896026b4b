#pragma once

#include "base/result.h"
#include "graph/passes/unrolled/unrolled_loop.h"

namespace stitch::graph {

/// The graph with one loop in the place of the turns that it has written out.
///
/// The loop carries a counter, what a turn hands to the next, and as invariants what all turns read; slices that
/// advance are dynamic slices there. What others read of all turns is written turn by turn into a carried tensor: in
/// the order and place of the concatenation that reads it, or along a new first dimension. What they read of the last
/// turn alone is carried. May leave dead nodes. Error (internal): something ill-typed was built.
Result<Graph> rolled(const Graph& graph, const UnrolledLoop& loop);

}  // namespace stitch::graph
