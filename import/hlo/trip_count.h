#pragma once

#include "graph/graph.h"

namespace stitch::import::hlo {

/// Pass: the graph with the trip counts of its loops filled in, wherever the values that a loop's condition depends on
/// (a counter, a bound, a flag) evolve from known starts by arithmetic on themselves alone. Such a loop is simply run,
/// a quarter of a million trips at most; nested loops learn what the loops around them leave unchanged.
/// Expects a verified graph; changes nothing but LoopAttributes::trip_count. Loops whose count is set are left alone.
graph::Graph with_trip_counts(const graph::Graph& graph);

}  // namespace stitch::import::hlo
