#pragma once

#include <vector>

#include "search/partition/part_limits.h"
#include "search/partition/part_prices.h"
#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Merges neighbours (producer and consumer, or readers of the same value) while the full model predicts a gain. Each
/// round merges as many pairs as do not touch one another, best first, so that the number of rounds grows with the
/// logarithm of the parts. Nothing is done where
/// there are more than `most_parts`.
void merge_neighbours(const VertexGraph& vertices, std::vector<VertexSet>& parts, std::size_t most_parts,
                      PartPrices& prices, PartLimits& limits);

}  // namespace stitch::search
