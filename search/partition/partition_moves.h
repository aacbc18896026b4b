#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Predicted µs of each of some sets of vertices as a kernel; very large where none fits.
using PriceOfSets = std::function<std::vector<double>(const std::vector<VertexSet>&)>;

/// The partition that the most gainful single move makes of one: a vertex into another part or into one of its own, or
/// two parts joined. Parts that nothing connects are joined only when `packing` is set. Nothing when no move gains.
/// Looks at vertices × parts sets, so that it is for small graphs; parts stay without cycles, in ascending order.
std::optional<std::vector<VertexSet>> best_move(const VertexGraph& vertices, const std::vector<VertexSet>& parts,
                                                bool packing, const PriceOfSets& price);

}  // namespace stitch::search
