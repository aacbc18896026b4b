#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "graph/graph.h"
#include "graph/strided_view.h"
#include "kernel/contraction/contraction_results.h"

// Sums over the rows of a product, as far as a block has them: a bias's gradient is the sum of all rows of what a
// product leaves, a batch norm's mean and variance, and the gradients of a norm's scale and shift, are such sums of
// what is made of it. Of dgelu(dy·wᵀ, h): bf16[8192,3072] a kernel stores besides
//
//     f32[128,3072]   of every 64 rows, one group after the other, their sum
//
// which another kernel adds up. The product itself is then not read again for it. A group is whole within a tile, so
// that no block waits for another one, and results do not depend on who comes first.

namespace stitch::kernel {

/// Rows of a group, a power of two: as few as an instruction has, as many as any tile. Other sums over all rows may be
/// of rows seen from the other side (row_reductions.h).
inline constexpr std::int64_t least_column_group = 16, most_column_group = 128;

/// A result that has one element for each column and group of rows: their sum.
struct ColumnSum {
  graph::NodeId node = -1;    ///< the reduction
  std::size_t result = 0;     ///< which of the graph's results it is; results_of says where it is stored, and how many
                              ///< rows a group has
  ContractionResult operand;  ///< where the values would lie that are added, if they were stored

  bool operator==(const ColumnSum&) const = default;
};

struct StoredColumnSum {
  ColumnSum sum;
  ContractionResult stored;
};

/// Whether a value is the sum, in f32, over groups of rows that follow one another, of what is made of the root element
/// by element: a reduction, or a layout of one, that nothing else in the graph reads. Nothing: it is none. `sums`: the
/// root's result by the product's own order.
std::optional<StoredColumnSum> column_sum_of(const graph::Graph& graph, graph::NodeId root, graph::Value value,
                                             const ContractionExtents& extents, graph::DType accumulator,
                                             const graph::StridedView& sums);

}  // namespace stitch::kernel
