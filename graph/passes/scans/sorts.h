#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Sorts of which a part is wanted: where all that reads a sort's results are slices from the front of its lines, it
/// gives no more than the longest of them (sort and slice are a top-k); what goes along and nobody reads is dropped.
/// (Lines of one element are their operands: unit-dimensions.)
///
/// Exact. Expects: dead code removed.
Result<int> simplify_sorts(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
