#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Windows of more elements than a kernel should read, or compare with one another, for each element of its result:
///
///  - reduce-window of a large window is a reduction where windows lie side by side, else several smaller windows one
///    after the other (graph/passes/window_reductions.h);
///  - select-and-scatter, the gradient of max-pooling, selects once per window, not once per element of x
///    (graph/passes/window_selections.h). Windows of at most four elements stay.
///
/// Exact but for the rounding of float sums and products, whose order changes (a narrow type is rounded once, as
/// before). Sources of select-and-scatter are added in the order in which the operator adds them, unless they are
/// scattered. Expects: nothing.
Result<int> simplify_windows(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
