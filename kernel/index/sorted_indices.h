#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace stitch::kernel {

/// Indices side by side of which a scatter's kernel shows that they ascend, because a sort has put them in order: the
/// length of the sorted lines that they come from, one line after the other. Whoever wants the updates of a place finds
/// them in a line by binary search, side by side and (where the sort has taken the updates along) in their order.
///
///     %2, %3 = sort s32[8,4096] keys, places {dimension=1, count=4096}
///     %4 = reshape s32[32768] %2
///     scatter(table, %4, updates)        4096
///
/// 0: no such thing is known. Of indices in s32 or s64 that name places along one dimension of the operand, of fewer
/// than 2^31.
std::int64_t sorted_line(const graph::Graph& graph, graph::NodeId scatter);

/// Updates of one line and place that a thread which takes `elements` of each has under way together: 4 to 16 elements,
/// as there are updates, spread evenly. More would only be more code. Of a scatter with sorted lines.
int updates_in_flight(const graph::Graph& graph, graph::NodeId scatter, std::int64_t elements);

}  // namespace stitch::kernel
