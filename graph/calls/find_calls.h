#pragma once

#include <vector>

#include "graph/calls/library_call.h"

namespace stitch::graph {

/// One call per dot and convolution of the graph (regions not included), in order of their roots.
std::vector<LibraryCall> find_library_calls(const Graph& graph, const LibraryOptions& options = {});

}  // namespace stitch::graph
