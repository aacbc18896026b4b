#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Gather, scatter, dynamic-slice and dynamic-update-slice.
///
///  - dynamic-slice with constant starts is a slice, of everything the operand; starts along whole dimensions are 0;
///  - dynamic-update-slice of everything is the update, of nothing its operand (as a scatter of nothing is); with
///    constant starts along one dimension a concatenation (of its own fill: a pad);
///  - a gather takes from the operands of an element-wise operator when that is much less work than the operator, and
///    from a broadcast whatever does not depend on the index;
///  - a scatter that replaces whole rows whose indices are known to count up by one (ONNX's x[2:5] = y) is an update of
///    a slice, and with that a concatenation;
///  - a scatter of many sums into at most four rows is a masked column sum for each;
///  - a scatter at constant places is a gather (graph/passes/known_scatters.h);
///  - a scatter with one update per batch element (the gradient of take_along_axis) is element-wise:
///    select(iota == index, operand ⊕ update, operand). What is out of range is dropped by both.
///
/// Exact. Expects: extents of 1 taken out, so that index vectors are implicit.
Result<int> simplify_indexing(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
