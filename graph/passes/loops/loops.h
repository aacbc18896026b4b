#pragma once

#include <vector>

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Loops carry what changes, and only what is needed.
///
///  - Trip counts: a counter with constant start and step, compared with a constant. No trip: the initial values; one
///    trip: the body in place of the loop.
///  - A carried value that the body hands on unchanged is invariant: after the loop it is what it was before. Scalar
///    constants, iotas and their broadcasts are made in the body instead of being carried; equal invariants and equal
///    counters are carried once.
///  - A carried value that neither the condition nor a needed result depends on is dropped.
///  - Invariant computations leave the body and are carried instead, from the largest values that more than a broadcast
///    or reshape makes.
///
/// Exact. Enters regions only to rebuild them; the list of passes runs on the new ones in the next round. Expects:
/// regions already simplified. Stands last: what it hoists and forwards is the next round's work.
Result<int> simplify_loops(Graph& graph, const PassContext& context);

/// What is known of the values that `loop`, a node of `graph`, carries into its body: counters with constant start and
/// step run through known values when the trip count is known.
std::vector<ValueRange> carried_ranges(const Graph& graph, const Node& loop);

}  // namespace stitch::graph
