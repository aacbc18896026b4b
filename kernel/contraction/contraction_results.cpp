#include "kernel/contraction/contraction_results.h"

#include <algorithm>
#include <optional>

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::StridedView;
using graph::Value;

/// A digit of the result: its step in (b · rows + m) · columns + n, and where it is stored.
struct StoredDigit {
  std::int64_t extent, step, stride;
};

/// All of them, outermost first by their steps; nothing: there are no elements.
std::vector<StoredDigit> stored_digits(const StridedView& view) {
  std::vector<StoredDigit> digits;
  std::int64_t stride = 1;
  for (std::size_t d = view.dims.size(); d-- > 0;) {
    for (std::size_t i = view.dims[d].size(); i-- > 0;) {
      const StridedView::Digit& digit = view.dims[d][i];
      if (digit.extent != 1) digits.push_back({digit.extent, digit.stride, stride});
      stride *= digit.extent;
    }
  }
  if (stride == 0) return {};
  std::ranges::sort(digits, [](const StoredDigit& a, const StoredDigit& b) { return a.step > b.step; });
  return digits;
}

bool is_layout(Op op) { return op == Op::transpose || op == Op::reshape; }

}  // namespace

StridedView turned(StridedView sums, const ContractionExtents& extents) {
  const std::int64_t plane = extents.rows * extents.columns;
  for (auto& dimension : sums.dims) {
    for (auto& [extent, stride] : dimension) {
      if (stride < extents.columns) {
        stride *= extents.rows;
      } else if (stride < plane) {
        stride /= extents.columns;
      }
    }
  }
  return sums;
}

Result<ContractionDigits> stored_between(const StridedView& view, std::int64_t low, std::int64_t high) {
  ContractionDigits digits;
  for (const StoredDigit& digit : stored_digits(view)) {
    const std::int64_t end = digit.step * digit.extent;
    if (end <= low || digit.step >= high) continue;
    const std::int64_t first = std::max(low, digit.step), last = std::min(high, end);
    if (first % digit.step != 0 || last % first != 0 || end % last != 0)
      return make_error(ErrorKind::unsupported, "the result's layout joins parts of rows and columns");
    digits.push_back({last / first, digit.stride * (first / digit.step)});
  }
  return graph::collapsed(digits);
}

Result<std::vector<NodeId>> path_from_root(const Graph& graph, NodeId root, NodeId value) {
  // What depends on the root, and what shows each of its elements once.
  std::vector<bool> depends(graph.size(), false), shows(graph.size(), false);
  depends[root] = shows[root] = true;
  for (NodeId id = root + 1; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const auto any = [&](const std::vector<bool>& of) {
      return std::ranges::any_of(node.operands, [&](Value operand) { return of[operand.node]; });
    };
    depends[id] = any(depends);
    shows[id] = (graph::is_elementwise(node.op) || is_layout(node.op)) && any(shows);
  }
  if (!depends[value])
    return make_error(ErrorKind::unsupported, "the result does not depend on the {}", to_string(graph.node(root).op));
  std::vector<NodeId> path;
  while (value != root) {
    path.push_back(value);
    const std::vector<bool>& of = shows[value] ? shows : depends;
    const auto& operands = graph.node(value).operands;
    value = std::ranges::find_if(operands, [&](Value operand) { return of[operand.node]; })->node;
  }
  std::ranges::reverse(path);
  return path;
}

namespace {

/// `view` as it is behind a node; nothing: it is no layout that keeps or drops whole dimensions.
std::optional<StridedView> behind(const StridedView& view, const Node& node) {
  if (is_layout(node.op)) {
    std::optional<StridedView> next = graph::apply_layout(view, node);
    if (next || node.op != Op::reshape) return next;
    // Dimensions that follow one another (of a convolution's positions) may be parted otherwise.
    StridedView joined{view.source, view.offset, {{}}};
    for (const auto& digits : view.dims) joined.dims[0].insert(joined.dims[0].end(), digits.begin(), digits.end());
    joined.dims[0] = graph::collapsed(joined.dims[0]);
    return graph::apply_layout(joined, node);
  }
  if (node.op != Op::reduce) return std::nullopt;
  const auto& dropped = node.as<graph::ReduceAttributes>().dimensions;
  StridedView kept{view.source, view.offset, {}};
  for (std::size_t d = 0; d < view.dims.size(); ++d) {
    if (std::ranges::count(dropped, static_cast<std::int64_t>(d)) == 0) kept.dims.push_back(view.dims[d]);
  }
  return kept;
}

std::int64_t elements_of(const ContractionDigits& digits) {
  std::int64_t count = 1;
  for (const auto& digit : digits) count *= digit.extent;
  return count;
}

}  // namespace

Result<StridedView> view_behind(const Graph& graph, StridedView view, std::span<const NodeId> path, NodeId root) {
  for (const NodeId id : path) {
    const Node& node = graph.node(id);
    if (graph::is_elementwise(node.op)) continue;
    const std::optional<StridedView> next = behind(view, node);
    if (!next) {
      return make_error(ErrorKind::unsupported, "{} '{}' behind a {} is neither element-wise nor a layout",
                        to_string(node.op), node.name, to_string(graph.node(root).op));
    }
    view = *next;
  }
  return view;
}

Result<ContractionResult> result_of(const Graph& graph, StridedView view, std::span<const NodeId> path, NodeId root,
                                    const ContractionExtents& extents) {
  ContractionResult result;
  STITCH_ASSIGN(view, view_behind(graph, std::move(view), path, root));
  result.of_rows = std::ranges::any_of(path, [&](NodeId id) { return graph.node(id).op == Op::reduce; });
  result.dtype = graph.node(path.empty() ? root : path.back()).type().dtype;
  if (graph.node(path.empty() ? root : path.back()).type().elements() == 0) return result;
  const std::int64_t plane = extents.rows * extents.columns;
  STITCH_ASSIGN(result.columns, stored_between(view, 1, extents.columns));
  STITCH_ASSIGN(result.rows, stored_between(view, extents.columns, plane));
  STITCH_ASSIGN(result.batch, stored_between(view, plane, plane * extents.batch));
  const bool whole_rows =
      result.columns.empty() && elements_of(result.rows) == extents.rows && elements_of(result.batch) == extents.batch;
  if (result.of_rows && (!whole_rows || extents.columns < 2))
    return make_error(ErrorKind::unsupported, "a result of what is no whole row");
  return result;
}

}  // namespace stitch::kernel
