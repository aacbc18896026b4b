#pragma once

#include <functional>
#include <vector>

#include "graph/calls/library_call.h"

namespace stitch::graph {

/// Products whose elements nobody needs, but what whole rows of them are combined to: the greatest logit of a row and
/// the sum of exponentials relative to it, the one of a label, a nearest neighbour's distance. Such a call computes the
/// product, what follows it element by element, and those reductions, which are its results, so that the product is
/// never in memory:
///
///     x·w [rows, columns]  →  max [rows], Σ exp(x·w − max) [rows], Σ select(column = label, x·w, 0) [rows]
///
/// What lies between the reductions (a guard for rows of −∞) is made within; what is made of the results is left to
/// fragments. Only where that needs more than the rows by themselves (a mean over them, the other parts of a product
/// in column_tiles.h): else one kernel may have all of it (tuning/programs/row_groups.h). `wanted`: whether a kernel of
/// ours is to compute such a call, by its own graph.
std::vector<LibraryCall> join_row_results(const Graph& graph, std::vector<LibraryCall> calls,
                                          const std::function<bool(const Graph&)>& wanted);

/// Whether a call's results are rows of its product.
bool has_row_results(const Graph& graph, const LibraryCall& call);

}  // namespace stitch::graph
