#pragma once

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// What takes the place of a reduce-window whose window has more elements than a kernel should read for each result:
///
///  - a window over all of its dimension reduces it (of any size);
///  - where a window's size and stride have a common divisor g, g neighbours are reduced first:
///    window(n, stride s) = window(n/g, stride s/g) of reduce([…, g]); of windows side by side nothing else is left;
///  - a window in several dimensions is one in each, one after the other;
///  - a long one, n = a·b + r, is one of b over those of a, and one of r: √n reads instead of n. Where a second reading
///    of an element changes nothing (max, min, and, or), those of a overlap and there is no rest.
///
/// None when the window is small or does not move.
Replacement split_window(Rewriter& graph, const Node& node);

}  // namespace stitch::graph
