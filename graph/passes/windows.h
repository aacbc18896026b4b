#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Select-and-scatter (the gradient of max-pooling) over windows that overlap, without padding: which element of each
/// window is selected is computed once per window, as a byte that counts its elements in row-major order:
///
///     best, pick = x[s·w], 0; for all further elements o: if x[s·w + o] is better than best: x[s·w + o], o
///     result = Σ_o pad(select(pick == o, source, 0); o in front, s - 1 between)
///
/// An element of the result then reads two small values for each window that covers it, where the operator itself has
/// to compare all elements of all of them: 3×3 windows with stride 2 cover an element up to four times. Windows that do
/// not overlap stay: they cover an element once.
///
/// Exact: sources are added in the order in which the operator adds them. Expects: nothing.
Result<int> simplify_windows(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
