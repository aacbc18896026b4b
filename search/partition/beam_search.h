#pragma once

#include <vector>

#include "search/partition/patterns.h"
#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Plans as partitions of the vertices, best first by the delta evaluator: goes through the vertices in order and takes
/// for each that is not covered yet one of its patterns, keeping the `width` states with the most gain. No two patterns
/// of a partition overlap, or depend on one another both ways; longer circles are possible. `patterns`: by vertex, as
/// generate_patterns makes them.
std::vector<std::vector<VertexSet>> beam_search(const VertexGraph& vertices,
                                                const std::vector<std::vector<Pattern>>& patterns, int width);

}  // namespace stitch::search
