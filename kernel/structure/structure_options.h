#pragma once

#include <cstdint>
#include <set>
#include <stop_token>

#include "graph/graph.h"

namespace stitch::kernel {

/// What is chosen of a kernel before its structure is derived. The stitch explorer tries several; a Schedule records
/// what was chosen.
struct StructureOptions {
  /// Axes that lie within one tile (block or cluster). A reduction over these alone is complete inside the phase; any
  /// other leaves partial results and is finished in the next phase.
  std::set<int> tile_axes;
  /// Values stored to scratch at the end of their phase and read by later ones.
  std::set<graph::Value> materialised;
  /// Values that are stored before any other operator reads them, so that nobody computes them again: operands of a
  /// contraction, of which every element is read many times.
  std::set<graph::Value> stored_first = {};
  /// Inputs that are the same in every turn of a recurrent kernel: parameters of its step's graph.
  std::set<int> lasting_inputs = {};
  /// A reduction of at most so many elements, of what tiles have left, ends in a tile of a phase of its own, whatever
  /// axes it is over: every tile stores what it has, and one reads it all. Partial results of it would be combined once
  /// more behind another barrier of the grid. 0: none.
  std::int64_t gathered = 0;
  std::stop_token stop = {};  ///< looked at before each phase and group: a chain of norms has hundreds
};

}  // namespace stitch::kernel
