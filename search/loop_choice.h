#pragma once

#include "graph/graph.h"
#include "search/fusion_explorer.h"
#include "search/kernel_cache.h"

namespace stitch::search {

/// Whether a loop (a graph with nothing beside it: search/row_split.h's recurrent_loop) is better run by one kernel
/// than turn by turn: it can be, and the prediction for it is below that for the plans of its body, with library calls
/// for the contractions that take no longer than a launch, in every turn.
bool runs_in_one_kernel(const graph::Graph& loop, KernelCache& cache, const FusionOptions& options);

}  // namespace stitch::search
