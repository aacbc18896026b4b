#include "kernel/contraction/row_reductions.h"

#include <algorithm>

#include "graph/subgraph.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Whether digits, as they lie in a tensor of these dimensions, are among the chosen dimensions, or none of them is.
bool within(const ContractionDigits& digits, const Dims& dims, const Dims& chosen, bool among) {
  const Dims strides = graph::row_major_strides(dims);
  for (const auto& [extent, stride] : digits) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 1) continue;
      const bool touches = stride < strides[d] * dims[d] && strides[d] < stride * extent;
      const bool is_chosen = std::ranges::count(chosen, static_cast<std::int64_t>(d)) > 0;
      if (touches && is_chosen != among) return false;
    }
  }
  return true;
}

template <class... Arguments>
Error unsupported(const Node& node, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::unsupported, "{} '{}' behind a product {}", to_string(node.op), node.name,
                    fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace

Result<std::vector<RowReduction>> row_reductions_of(const Graph& graph, NodeId root, const ContractionExtents& extents,
                                                    graph::DType accumulator, const graph::StridedView& sums,
                                                    std::span<const NodeId> others) {
  const std::vector<bool> needed = graph::needed_for(graph, graph.results());
  std::vector<int> level(graph.size(), -1);  // of reductions that a node depends on; −1: it does not depend on the root
  level[root] = 0;
  std::vector<RowReduction> reductions;
  for (NodeId id = root + 1; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    for (const Value operand : node.operands) level[id] = std::max(level[id], level[operand.node]);
    if (!needed[id] || level[id] < 0 || node.op != Op::reduce || std::ranges::count(others, id) > 0) continue;
    const auto& attributes = node.as<graph::ReduceAttributes>();
    RowReduction reduction{id, attributes.kind, level[id]++, {}};
    if (level[id] > most_row_levels) return unsupported(node, "waits for {} others", level[id] - 1);
    // Tiles differ with the number of rows, and the order of a row's additions with them.
    if (graph.constraints.batch_invariant) return unsupported(node, "combines rows in tiles' order");
    const graph::DType dtype = node.type().dtype;
    if (!graph::is_floating(dtype) || dtype == graph::DType::f64 || accumulator != graph::DType::f32)
      return unsupported(node, "combines rows of {}", to_string(dtype));
    STITCH_ASSIGN(const auto path, path_from_root(graph, root, node.operands[0].node));
    STITCH_ASSIGN(reduction.operand, result_of(graph, sums, path, root, extents));
    const Dims& dims = graph.type(node.operands[0]).dims;
    const bool whole_rows = within(reduction.operand.columns, dims, attributes.dimensions, true) &&
                            within(reduction.operand.rows, dims, attributes.dimensions, false) &&
                            within(reduction.operand.batch, dims, attributes.dimensions, false);
    if (!whole_rows || extents.columns < 2) return unsupported(node, "combines anything but whole rows");
    reductions.push_back(std::move(reduction));
  }
  return reductions;
}

int row_levels(std::span<const RowReduction> reductions) {
  int levels = 0;
  for (const RowReduction& reduction : reductions) levels = std::max(levels, reduction.level + 1);
  return levels;
}

Result<Value> value_before_rows(const Graph& graph, NodeId root, std::span<const RowReduction> reductions) {
  std::vector<NodeId> common;
  bool first = true;
  const auto meet = [&](NodeId value) -> Status {
    STITCH_ASSIGN(std::vector<NodeId> path, path_from_root(graph, root, value));
    if (first) common = path;
    first = false;
    const auto [end, unused] = std::ranges::mismatch(common, path);
    common.erase(end, common.end());
    return {};
  };
  for (const Value result : graph.results()) STITCH_TRY(meet(result.node));
  for (const RowReduction& reduction : reductions) STITCH_TRY(meet(graph.node(reduction.node).operands[0].node));
  return Value{common.empty() ? root : common.back(), 0};
}

}  // namespace stitch::kernel
