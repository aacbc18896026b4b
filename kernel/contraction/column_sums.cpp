#include "kernel/contraction/column_sums.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::StridedView;
using graph::Value;

/// The reduction that a value is a layout of; nothing: it is none, or others read what is on the way.
std::optional<NodeId> reduction_of(const Graph& graph, Value value) {
  std::vector<int> readers(graph.size(), 0);
  for (const Node& node : graph.nodes()) {
    for (const Value operand : node.operands) ++readers[operand.node];
  }
  for (const Value result : graph.results()) ++readers[result.node];
  for (;;) {
    const Node& node = graph.node(value.node);
    if (readers[value.node] != 1) return std::nullopt;
    if (node.op == Op::reduce) return value.node;
    if (node.op != Op::transpose && node.op != Op::reshape) return std::nullopt;
    value = node.operands[0];
  }
}

/// The digits of these dimensions as one that follows upon columns: how many rows it has, each behind the one before;
/// 0: they are anything else.
std::int64_t rows_within(const StridedView& view, std::span<const std::int64_t> dimensions, std::int64_t columns) {
  std::vector<StridedView::Digit> digits;
  for (const std::int64_t d : dimensions) {
    for (const StridedView::Digit& digit : view.dims[static_cast<std::size_t>(d)]) {
      if (digit.extent != 1) digits.push_back(digit);
    }
  }
  std::ranges::sort(digits, {}, &StridedView::Digit::stride);
  std::int64_t rows = 1;
  for (const auto& [extent, stride] : digits) {
    if (stride != columns * rows) return 0;
    rows *= extent;
  }
  return rows;
}

}  // namespace

std::optional<StoredColumnSum> column_sum_of(const Graph& graph, NodeId root, Value value,
                                             const ContractionExtents& extents, graph::DType accumulator,
                                             const StridedView& sums) {
  const std::optional<NodeId> reduction = reduction_of(graph, value);
  // As with whole rows, tiles differ with the number of rows, and the order of additions with them.
  if (!reduction || graph.constraints.batch_invariant || accumulator != graph::DType::f32) return std::nullopt;
  const Node& node = graph.node(*reduction);
  const auto& attributes = node.as<graph::ReduceAttributes>();
  if (attributes.kind != graph::ReduceKind::sum || node.type().dtype != graph::DType::f32 ||
      graph.type(value).elements() == 0)
    return std::nullopt;
  const auto path = path_from_root(graph, root, node.operands[0].node);
  if (!path) return std::nullopt;
  const auto view = view_behind(graph, sums, *path, root);
  auto operand = result_of(graph, sums, *path, root, extents);
  if (!view || !operand || operand->of_rows) return std::nullopt;
  const std::int64_t summed = rows_within(*view, attributes.dimensions, extents.columns);
  if (summed < least_column_group || summed > most_column_group ||
      !std::has_single_bit(static_cast<std::uint64_t>(summed)))
    return std::nullopt;
  if (extents.rows % summed != 0) return std::nullopt;

  const auto whole = path_from_root(graph, root, value.node);
  if (!whole) return std::nullopt;
  const auto behind = view_behind(graph, sums, *whole, root);
  if (!behind) return std::nullopt;
  const std::int64_t plane = extents.rows * extents.columns;
  auto columns = stored_between(*behind, 1, extents.columns);
  auto groups = stored_between(*behind, extents.columns * summed, plane);
  auto batch = stored_between(*behind, plane, plane * extents.batch);
  if (!columns || !groups || !batch) return std::nullopt;
  ContractionResult stored{graph.type(value).dtype, *std::move(batch), *std::move(groups), *std::move(columns), false,
                           static_cast<int>(summed)};
  return StoredColumnSum{{*reduction, 0, *std::move(operand)}, std::move(stored)};
}

}  // namespace stitch::kernel
