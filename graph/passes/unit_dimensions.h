#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Takes dimensions of extent 1 out of the operators: x[4096,1] op y[4096,1] becomes reshape(reshape(x) op reshape(y))
/// on [4096], so that `keepdims` noise meets as reshapes of reshapes.
///
/// Expects: nothing. Guarantees (together with layout_chains, which merges the reshapes): only parameters, results and
/// boundaries (convolution, opaque, regions, windows, arg-reduce) see extents of 1; broadcasts never map them.
/// Exact. Stands first among the layout passes because the others then match operators without looking through them.
Result<int> drop_unit_dimensions(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
