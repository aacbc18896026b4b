#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Convolutions that are no matrix products are written out, so that they are fused like any operator that memory
/// binds: a depthwise convolution (each feature by itself, one result a feature) with at most 64 positions in its
/// window is the sum over them of a slice of the padded input times a broadcast. As a library's call it would read and
/// write everything once more than what stands around it does (a norm, an activation, a mean over the image).
///
/// Not written out: where nearly all is padding, and where a graph has more than 4096 such positions altogether.
///
/// Exact but for the order of the sum, which the accumulator's type takes. Expects: nothing.
Result<int> simplify_convolutions(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
