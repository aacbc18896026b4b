#pragma once

#include <functional>
#include <vector>

#include "graph/calls/library_call.h"

namespace stitch::graph {

/// Makes calls of attentions and their gradients, as FlashAttention has them (Dao et al. 2022), so that neither scores
/// nor weights are in memory:
///
///     forward            queries, keys, values, masks → output, and what else needs them: the greatest logit of each
///                        row, the sum of its exponentials
///     gradient of queries, gradients of keys and values (in the order of their dots, or else a call each)
///                        queries, keys, values, output's gradient, masks, and what does not vary along the keys
///                        (maxima, reciprocals of sums, what a softmax's gradient subtracts)
///
/// A gradient's call has up to two inner dots (the scores again, and the gradient of the weights), which is its root if
/// it has it, element-wise operators and layouts behind them, and an outer dot for each of its results with the
/// epilogue that `calls` gives that. It has no reduction: rows are operands, as what their broadcasts repeat.
///
/// Where the two passes are graphs of their own, as PyTorch has them, either is found by itself: an attention others
/// need the rows' maxima or sums of, and gradients by exponentials of scores less what is known of their rows.
///
/// All calls of an attention, or none: where all that follows the scores ends in these calls' results, no call would
/// wait for itself, and `wanted` says yes to the own graph of each. What follows the sums by the row alone
/// (reciprocals) is left to fragments, besides what the forward pass has of it.
std::vector<LibraryCall> join_attention_gradients(const Graph& graph, std::vector<LibraryCall> calls,
                                                  const std::function<bool(const Graph&)>& wanted);

}  // namespace stitch::graph
