#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "tuning/programs/region_piece.h"

// What kernels of products compute while they load it (kernel/contraction/computed_operand.h), so that nobody writes
// it: a conversion, the derivative of an activation, and of a norm all but its rows' statistics, which whoever had the
// norm writes in its place.

namespace stitch::tuning {

/// A value that a piece writes and only a product reads, by the pieces' numbers.
struct OperandGroup {
  std::size_t maker = 0, product = 0;
  graph::Value operand;              ///< which the maker does not write any more, unless others read it
  std::vector<graph::Value> reads;   ///< of the product
  std::vector<graph::Value> writes;  ///< of the maker; none: it is left out
};

/// Such values that are made element by element of what is in memory, or of a few values more (at most a sixteenth of
/// the operand's elements), and that nobody else reads, or that repeat what they are made of (masks of groups): then
/// each product may compute it for itself. `memory_of`: the value that is written where a value lies; `in_place`:
/// whether a piece writes over what it reads; `wanted`: whether a graph is to be one kernel of ours, where what it
/// computes of its operands would else be a kernel of its own, or part of one.
std::vector<OperandGroup> group_operands(const graph::Graph& graph, std::span<const RegionPiece> pieces,
                                         const std::function<graph::Value(graph::Value)>& memory_of,
                                         const std::function<bool(const RegionPiece&)>& in_place,
                                         const std::function<bool(const graph::Graph&, bool apart)>& wanted);

}  // namespace stitch::tuning
