#pragma once

#include <span>
#include <vector>

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// Values of a loop's body that depend on invariant parameters only, are used by something that changes, and are worth
/// carrying: more than a broadcast, reshape or slice of a parameter. In the body's order.
std::vector<Value> hoistable_values(const Graph& body, const std::vector<bool>& invariant_parameters);

/// The same values computed around the loop, whose initial values are `arguments`.
std::vector<Value> hoisted_outside(Rewriter& graph, const Graph& body, std::span<const Value> arguments,
                                   std::span<const Value> values);

}  // namespace stitch::graph
