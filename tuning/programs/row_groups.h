#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "graph/cut_graph.h"
#include "graph/graph.h"
#include "tuning/programs/grouped_sums.h"
#include "tuning/programs/piece_dependencies.h"

// Which fragments the kernel of a product computes, too: the norm of a residual stream behind the product that adds to
// it (kernel/contraction/row_reductions.h), the cell behind the product that is its gates, the derivative whose rows
// are a bias's gradient (kernel/contraction/column_sums.h); and which product that takes another one as its gate
// (kernel/contraction/gated_contraction.h).

namespace stitch::tuning {

/// A library call and the fragment behind it, or the call that it is the gate of, by the pieces' numbers.
struct RowGroup {
  std::size_t product = 0, rows = 0;
  /// What such a kernel reads, and writes: the product's result as well where others need it.
  std::vector<graph::Value> reads, writes;
  /// What is left of the fragment where the kernel leaves sums of groups of rows: it adds those up.
  std::optional<graph::FragmentSite> rest;
};

/// Pairs of a library call and what reads what that writes and waits for nothing that others make of it.
/// `memory_of`: the value that is written where a value lies; `wanted`: whether such a pair's graph is to be one
/// kernel, and whether nothing is left then that needs another one; `sums`: what the graph is of, where its sums over
/// rows are made in two steps, else null.
std::vector<RowGroup> group_rows(const graph::Graph& graph, std::span<const RegionPiece> pieces,
                                 const std::function<graph::Value(graph::Value)>& memory_of,
                                 const std::function<bool(const graph::Graph&, bool)>& wanted,
                                 const GroupedSums* sums = nullptr);

}  // namespace stitch::tuning
