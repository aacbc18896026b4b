#pragma once

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// Select-and-scatter (the gradient of max-pooling) in two steps: which element of its window is selected, once per
/// window; and what each element of x receives, from the few windows that may have selected it. (The operator itself
/// compares, for every element of x, all elements of all windows that cover it: n² comparisons for windows of n.)
///
/// 1. The place of the first of the extreme elements. Windows side by side: an arg-reduce of [windows, elements].
///    Others: one dimension after the other, innermost first, the best so far and its place; a long dimension in two
///    levels, so that n elements in each of two dimensions take 4√n steps. Padding is filled with the least value, and
///    where it is selected all the same, all elements are equal, and the first that is no padding takes its place.
/// 2. With ⌈size / stride⌉ windows over an element of x along a dimension, and x cut into tiles of a stride:
///
///        result[q, r] = Σ_j select(place[q - j] == r + j·stride, source[q - j], 0)
///
///    Where that would be many terms, the sources are scattered to the places instead.
///
/// None when there are no windows, or windows of one element.
Replacement select_once(Rewriter& graph, const Node& node);

}  // namespace stitch::graph
