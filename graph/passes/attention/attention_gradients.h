#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Makes the backward pass of attentions one that needs no tensor of scores in memory (Dao et al. 2022, §3.1).
///
/// With dP = dot(dO, V), the gradient of a softmax's weights P subtracts from dP a sum over the keys, in JAX's form
/// (Σ dP · e / s²) and in PyTorch's (Σ dP · P): as Σ dO · O over the width it needs the output alone, whatever else it
/// is multiplied by that does not vary along the keys (gradient_sums.h has the identity and how it is found).
///
/// What is divided there by something that repeats (the sum of a row) is multiplied by its reciprocal instead, which is
/// computed once a row: a division costs ten instructions for every score. So are the weights that the gradient of the
/// values multiplies; the forward pass keeps its own.
///
/// Changes rounding, so only with `reassociate`, and not of a graph under `eager_precision`. No pass of simplify's
/// list: it follows that list where kernels of ours may multiply (graph/calls/attention_gradients.h makes calls of what
/// it leaves). Of the graph itself, not of regions.
Result<int> simplify_attention_gradients(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
