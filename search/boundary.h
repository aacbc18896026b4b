#pragma once

#include <utility>

#include "search/vertex_graph.h"

namespace stitch::search {

/// Where two kernels, of which the second reads what the first writes, should be divided: of all ways to deal out their
/// element-wise and layout operators with producers in the first and consumers in the second, one that moves the fewest
/// bytes through device memory (values handed over are written and read, inputs of both are read twice). A minimum cut.
///
/// Reductions, scans and scatters stay where they are, since they are why there are two kernels, and so does what waits
/// in the second for those of the first, and what a third kernel reads from the first or hands to the second. No
/// operator moves when that saves nothing.
std::pair<VertexSet, VertexSet> best_boundary(const VertexGraph& vertices, const VertexSet& first,
                                              const VertexSet& second);

}  // namespace stitch::search
