#pragma once

#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "graph/calls/library_call.h"
#include "graph/cut_graph.h"
#include "graph/graph.h"

namespace stitch::tuning {

/// Library calls that one kernel of ours computes (product_groups.h); each writes one of the piece's values, in order.
/// Of two that are gates (row_groups.h) the second one does.
using MergedCalls = std::vector<const graph::LibraryCall*>;

/// A library call and the fragment behind it, which one kernel of ours computes (row_groups.h).
struct ProductAndRows {
  const graph::LibraryCall* product = nullptr;
  const graph::FragmentSite* rows = nullptr;
};

/// Products that are added, which one kernel of ours computes with what is behind the last one (sum_groups.h).
struct SummedCalls {
  std::vector<const graph::LibraryCall*> calls;
  const graph::FragmentSite* rows = nullptr;  ///< where the last one had it
};

/// What a region is made of: a fragment, a library call, several in one, one with a fragment, a sum of them, or another
/// operator, with the values of the region's graph that it reads and writes.
struct RegionPiece {
  std::vector<graph::Value> reads, writes;
  std::variant<const graph::FragmentSite*, const graph::LibraryCall*, MergedCalls, ProductAndRows, SummedCalls,
               graph::NodeId>
      work;
  int first = 0, last = 0;  ///< of its operators in the graph's order
  int computed = 0;         ///< operands that its kernel computes while it loads them (operand_groups.h)
};

/// Whether what a piece writes of `value` is a copy of what another one has written, for a result of its own: it reads
/// the value. `memory_of`: the value that is written where a value lies.
bool is_copy(const RegionPiece& piece, graph::Value value, const std::function<graph::Value(graph::Value)>& memory_of);
/// Values in their order, each once.
std::vector<graph::Value> distinct(std::span<const graph::Value> values);
/// Whether a piece is a library call of one product: no attention, and nothing that combines its rows.
bool is_one_product(const graph::Graph& graph, const RegionPiece& piece);

}  // namespace stitch::tuning
