#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "tuning/programs/piece_dependencies.h"

// Which products of a region one kernel computes (kernel/contraction/merged_contraction.h): Q, K and V of one input,
// the gradients of weights by one activation.

namespace stitch::tuning {

/// Groups of library calls, ascending by their roots, that read one operand, of which none waits for another (whatever
/// else has been grouped), and that are neither computable nor read so far from one another that what waits for the
/// others would fill memory. `memory_of`: the value that is written where a value lies; `wanted`: whether such a
/// group's graph is to be one kernel.
std::vector<PieceGroup> group_products(const graph::Graph& graph, std::span<const RegionPiece> pieces,
                                       const std::function<graph::Value(graph::Value)>& memory_of,
                                       const std::function<bool(const graph::Graph&)>& wanted);

}  // namespace stitch::tuning
