#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/calls/call_leaves.h"
#include "graph/calls/library_call.h"
#include "graph/softmax.h"

namespace stitch::graph {

/// An operator of a dropout: which of its operands is made of the softmax.
struct DropoutStep {
  NodeId node = -1;
  int operand = 0;
  bool operator==(const DropoutStep&) const = default;
};

/// Attention as models write it (Vaswani et al. 2017, §3.2.1), whatever masks, biases and scales the logits:
///
///     scores  = dot(queries, keys)
///     logits  = f(scores, …)             element by element
///     weights = softmax(logits)
///     result  = dot(weights, values)
///
/// with a dropout of the weights, maybe (Srivastava et al. 2014): they are multiplied by what does not depend on them,
/// or replaced by 0 where a mask says so, one after the other in whatever order.
struct Attention {
  NodeId scores = -1;   ///< the first dot
  NodeId product = -1;  ///< the second one
  Value logits;
  Value quotient;  ///< the softmax
  Value weights;   ///< converted to the type that is multiplied, in the layout of the logits, behind a dropout
  /// The dropout's operators from the weights back to the quotient: multiplications, divisions and selects. Empty:
  /// there is none.
  std::vector<DropoutStep> dropout;
  Value values;  ///< the other operand of the product
  Softmax softmax;
  bool nan_is_zero = false;   ///< weights that are NaN are replaced by 0, as PyTorch's exporter has it
  std::vector<NodeId> inner;  ///< operators from behind the scores to before the product, ascending
};

/// The attention whose second product `product` is. Only that it looks like one: what its kernel can do is
/// kernel/attention's.
std::optional<Attention> match_attention(const Graph& graph, NodeId product);

/// An attention as one call, whose root is the first dot: up to what the call of its second product gives, if all that
/// it reads is in memory. `values`: what the calls of the graph leave there. Whoever else needs what lies between is
/// not looked at.
std::optional<LibraryCall> call_of_attention(const Graph& graph, const Attention& attention, const LibraryCall& product,
                                             const CallValues& values);

/// Takes the calls of one attention together, as one call whose root is the first dot: where nobody else needs what
/// lies between, and `wanted` says yes to the call's own graph. Masks that are made of nothing (positions that are
/// compared) are made within. With `updates`, so are keys and values that are a tensor in memory a part of which is
/// replaced, a cache with what is new: where others need them, too, they are further results of the call, which reads
/// the tensor, what is new and where it goes. Keys and values that are pages of a cache, gathered by a table, are read
/// there where nobody else needs what is gathered.
std::vector<LibraryCall> join_attentions(const Graph& graph, std::vector<LibraryCall> calls,
                                         const std::function<bool(const Graph&)>& wanted, bool updates = true);

}  // namespace stitch::graph
