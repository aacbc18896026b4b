#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Evaluates what depends on constants alone (graph/reference/evaluate.h, every result rounded to its dtype).
///
///  - An operator on constants and repeated constants is folded when its result has at most 4096 elements.
///  - A constant of equal elements becomes a broadcast scalar, so that splats have one form and take no memory; for the
///    same reason broadcasts and iotas themselves are never folded.
///  - Of what is computed from iotas only expensive floating operators are folded (the powers of a rotary embedding),
///    up to 1024 elements: cheap index arithmetic and masks are better computed than loaded.
///
/// Exact up to the rounding of the operator's own result. Expects: broadcasts sunk, so that operators on splats are
/// operators on scalars.
Result<int> fold_constants(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
