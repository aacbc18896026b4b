#pragma once

#include <vector>

#include "search/partition/part_limits.h"
#include "search/partition/part_prices.h"
#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Patterns take what they can reach; what a later kernel could compute for less traffic is handed over to it. Divides
/// each producer and its consumers anew (search/partition/boundary.h) where the full model predicts a gain, a few
/// rounds long; a part from which everything was taken is dropped.
void move_boundaries(const VertexGraph& vertices, std::vector<VertexSet>& parts, PartPrices& prices,
                     const PartLimits& limits);

}  // namespace stitch::search
