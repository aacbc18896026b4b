#pragma once

#include <functional>
#include <vector>

#include "graph/calls/library_call.h"

namespace stitch::graph {

/// Gives calls of dots and convolutions the longest epilogue that a kernel of ours can have, where `wanted` says yes to
/// the call's graph: any element-wise operators behind them, branches that meet again included (x · tanh(x)), with
/// layouts in between, as long as nobody else needs what lies between, and the result is no larger than what the
/// library's call would store. What the operators read besides is in memory anyway: parameters, what other calls or
/// earlier levels store, or small against the result.
std::vector<LibraryCall> widen_epilogues(const Graph& graph, std::vector<LibraryCall> calls, const OwnCall& wanted);

}  // namespace stitch::graph
