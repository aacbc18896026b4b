#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// How a value that only moves elements lies in the memory of another: dimension d is the digits of dims[d], outermost
/// first, each with its extent and its stride in elements of the source.
struct StridedView {
  struct Digit {
    std::int64_t extent;
    std::int64_t stride;
    bool operator==(const Digit&) const = default;
  };
  Value source;
  std::int64_t offset = 0;
  std::vector<std::vector<Digit>> dims;

  /// The source itself.
  static StridedView of(const Graph& graph, Value source);
};

/// Follows reshape, transpose, unit-stride slice and broadcast (stride 0) from `value` back to the first value that is
/// none of these, as far as strides can describe the way.
StridedView view_of(const Graph& graph, Value value);

/// `value` or, through reshapes, what has the same elements in the same order.
Value without_reshapes(const Graph& graph, Value value);

/// Joins neighbouring digits that step evenly ([a·s·n][b·s] with a's stride = b's stride × b's extent).
std::vector<StridedView::Digit> collapsed(const std::vector<StridedView::Digit>& digits);

/// `view` as the layout operator `node` shows it, or nothing when strides cannot say it.
std::optional<StridedView> apply_layout(const StridedView& view, const Node& node);

}  // namespace stitch::graph
