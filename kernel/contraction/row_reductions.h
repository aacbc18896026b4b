#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "kernel/contraction/contraction_results.h"

// Norms behind a product: what follows the sums may combine whole rows of them (a mean, a variance, a softmax's
// greatest), where blocks beside one another have all columns of a row. Of layer_norm(x·w + residual):
//
//     value     residual stream: Σₖ x·w + residual                 may be stored, too
//     level 0   sum over a row of it                               in all blocks of the row before …
//     level 1   … the sum over a row of (value − mean)²
//     result    (value − mean) · rsqrt(variance + ε) · γ + β

namespace stitch::kernel {

/// What a row's values are combined to, all columns of it.
struct RowReduction {
  graph::NodeId node = -1;
  graph::ReduceKind kind = graph::ReduceKind::sum;
  int level = 0;              ///< reductions that it waits for, one after another
  ContractionResult operand;  ///< where the values would lie if they were stored

  bool operator==(const RowReduction&) const = default;
};

/// How often a kernel waits for the rest of its rows at most.
inline constexpr int most_row_levels = 4;

/// The reductions behind `root` that results need, in the graph's order, but for `others`, which combine no rows
/// (column_sums.h). `sums`: the root's result by the product's own order. Errors: unsupported (one that combines
/// anything but whole rows of the product, all of them; rows that are not combined in f32; more than most_row_levels,
/// one after another; any under batch_invariant), with the node.
Result<std::vector<RowReduction>> row_reductions_of(const graph::Graph& graph, graph::NodeId root,
                                                    const ContractionExtents& extents, graph::DType accumulator,
                                                    const graph::StridedView& sums,
                                                    std::span<const graph::NodeId> others = {});

/// Of reductions, how many follow one another.
int row_levels(std::span<const RowReduction> reductions);

/// The last value that all results, and all that is combined, are made of: the root or one behind it.
Result<graph::Value> value_before_rows(const graph::Graph& graph, graph::NodeId root,
                                       std::span<const RowReduction> reductions);

}  // namespace stitch::kernel
