#pragma once

#include <utility>
#include <vector>

#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Where two kernels, of which the second reads what the first writes, should be divided: of all ways to deal out their
/// element-wise and layout operators with producers in the first and consumers in the second, one that moves the fewest
/// bytes through device memory (values handed over are written and read, inputs of both are read twice). A minimum cut.
///
/// Reductions, scans and scatters stay where they are, since they are why there are two kernels, and so does what waits
/// in the second for those of the first, and what a third kernel reads from the first or hands to the second. Of the
/// least divisions the one with most in the second kernel comes first, then, if it is another, the one with most in the
/// first: what each group of the second would compute for itself (a scale from a norm) is then computed once. None when
/// that saves nothing.
std::vector<std::pair<VertexSet, VertexSet>> best_boundaries(const VertexGraph& vertices, const VertexSet& first,
                                                             const VertexSet& second);

}  // namespace stitch::search
