#pragma once

#include <variant>
#include <vector>

#include "graph/calls/library_call.h"
#include "graph/cut_graph.h"
#include "graph/graph.h"

namespace stitch::tuning {

/// Library calls that one kernel of ours computes (product_groups.h); each writes one of the piece's values, in order.
using MergedCalls = std::vector<const graph::LibraryCall*>;

/// What a region is made of: a fragment, a library call, several in one, or another operator, with the values of the
/// region's graph that it reads and writes.
struct RegionPiece {
  std::vector<graph::Value> reads, writes;
  std::variant<const graph::FragmentSite*, const graph::LibraryCall*, MergedCalls, graph::NodeId> work;
  int first = 0, last = 0;  ///< of its operators in the graph's order
};

}  // namespace stitch::tuning
