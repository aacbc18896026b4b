#pragma once

#include <vector>

#include "search/partition/part_prices.h"
#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Remote fusion: a virtual vertex that produces everything has the kernels as consumers; independent ones are joined
/// when one launch of all is predicted to be faster. Kernels of one depth are tried together, then in halves.
void pack_independent(const VertexGraph& vertices, std::vector<VertexSet>& parts, PartPrices& prices);

}  // namespace stitch::search
