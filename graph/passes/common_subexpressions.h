#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Computes equal things once: nodes with equal operator, attributes and operands (in any order where it means nothing)
/// become one; equal constants, iotas and broadcasts too. Regions are compared by their canonical keys. Opaque
/// operators, and what holds one in a region, are left alone: two calls may differ in what they do not say.
///
/// Expects: nothing; finds most once the passes before it have given equal things equal forms. Exact.
Result<int> merge_common_subexpressions(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
