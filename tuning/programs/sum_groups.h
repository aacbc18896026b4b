#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "tuning/programs/piece_dependencies.h"

// Which products of a region are added in one kernel (kernel/contraction/summed_contraction.h): the gradient by what Q,
// K and V are made of, that of a weight which several steps use.

namespace stitch::tuning {

struct SumGroup {
  PieceGroup pieces;  ///< library calls, each before the one that adds its result; the last may have rows behind it
  std::vector<graph::Value> reads, writes;
};

/// Products of which each one's result only another of them reads. What all but the last one read is kept until that
/// one runs: they are near it, or read little. `memory_of`: the value that is written where a value lies; `wanted`:
/// whether such a group's graph is to be one kernel.
std::vector<SumGroup> group_sums(const graph::Graph& graph, std::span<const RegionPiece> pieces,
                                 const std::function<graph::Value(graph::Value)>& memory_of,
                                 const std::function<bool(const graph::Graph&)>& wanted);

}  // namespace stitch::tuning
