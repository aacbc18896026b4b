#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace stitch::tuning {

/// Most bytes that values take at once when every operator runs by itself in the graph's order and each value is freed
/// after its last use, as a framework's eager mode does it. Parameters and constants are the caller's and not counted,
/// results are. Reshapes, transposes, broadcasts and slices are views that take nothing and keep what they show. A loop
/// or branch adds the peak of its fullest region. Values count in multiples of api::arena_alignment.
std::int64_t eager_peak_bytes(const graph::Graph& graph);

}  // namespace stitch::tuning
