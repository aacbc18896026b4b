#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/strided_view.h"
#include "kernel/contraction/contraction_operand.h"

// How values behind a contraction's root lie, by batch, row and column of the product. Of gelu(x·w) reshaped to
// [batch, heads, rows, width] the columns are heads and width, and an element of them is where the reshapes and
// transposes on the way from the root say.

namespace stitch::kernel {

/// Of a product: each of any number of dimensions, joined.
struct ContractionExtents {
  std::int64_t batch = 1, rows = 0, columns = 0;
};

/// The root's dimensions as digits of (b · rows + m) · columns + n, seen from the other side: of (b · columns + n) ·
/// rows + m.
graph::StridedView turned(graph::StridedView sums, const ContractionExtents& extents);

/// Where a result's elements are stored. They are dense, each exactly once.
struct ContractionResult {
  graph::DType dtype = graph::DType::f32;
  ContractionDigits batch, rows, columns;
  bool of_rows = false;  ///< one element for each row: made of what rows are combined to
  int summed = 1;        ///< rows that follow one another, of which it has the sum (column_sums.h): `rows` are groups

  /// One element for each row and column.
  [[nodiscard]] bool of_elements() const { return !of_rows && summed == 1; }

  bool operator==(const ContractionResult&) const = default;
};

/// The nodes from behind the root to `value`, each an operand of the next; element-wise operators, transposes and
/// reshapes where there is such a way. Error: unsupported (the value does not depend on the root).
Result<std::vector<graph::NodeId>> path_from_root(const graph::Graph& graph, graph::NodeId root, graph::NodeId value);

/// Of a value that shows each element of the view's source once and is stored densely: how the elements are stored that
/// strides of at least `low` and less than `high` lead to. Error: unsupported (a stride of the view leads beyond).
Result<ContractionDigits> stored_between(const graph::StridedView& view, std::int64_t low, std::int64_t high);

/// The root's result by the problem's own order, `view`, as it is behind these nodes: layouts, and reductions, which
/// drop dimensions. Error: unsupported (a node is none of these and not element-wise).
Result<graph::StridedView> view_behind(const graph::Graph& graph, graph::StridedView view,
                                       std::span<const graph::NodeId> path, graph::NodeId root);

/// A value as it is stored, or would be: `view` is the root's result by the problem's own order, and `path` leads to
/// it. Behind reductions over whole rows it is of rows. Errors: unsupported (a node on the way is none of these,
/// element-wise or a layout; a layout that joins parts of rows and columns).
Result<ContractionResult> result_of(const graph::Graph& graph, graph::StridedView view,
                                    std::span<const graph::NodeId> path, graph::NodeId root,
                                    const ContractionExtents& extents);

}  // namespace stitch::kernel
