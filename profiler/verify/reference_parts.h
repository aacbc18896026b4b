#pragma once

#include <span>
#include <vector>

#include "graph/reference/evaluate.h"

namespace stitch::profiler {

/// The reference of the boxes that are wanted of each result, or of fewer and smaller ones: `wanted` is thinned out,
/// with the first and the last of each result among what stays, until the evaluation takes no more than
/// `options.work_limit` and `options.memory_limit`. A deep chain of whose every element all before it has to be known
/// would take hours otherwise. What stays depends on the graph and on what is wanted alone, so that any machine sees
/// the same. At most eight or so tries are made, each within the limits.
///
/// Errors: those of the evaluation; resource_exhausted when one element of each result takes more than the limit.
Result<std::vector<std::vector<graph::Tensor>>> reference_within(const graph::Graph& graph,
                                                                 std::span<const graph::Input> inputs,
                                                                 std::vector<std::vector<graph::Box>>& wanted,
                                                                 const graph::EvaluateOptions& options);

}  // namespace stitch::profiler
