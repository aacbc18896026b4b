#pragma once

#include <vector>

#include "graph/calls/library_call.h"

namespace stitch::graph {

/// One call per dot and convolution of the graph (regions not included), in order of their roots. `updates`: an
/// attention of ours also updates the keys and values that it reads (attention.h); not where that may happen in place,
/// which writes less.
std::vector<LibraryCall> find_library_calls(const Graph& graph, const LibraryOptions& options = {},
                                            bool updates = true);

}  // namespace stitch::graph
