#pragma once

#include <optional>

#include "graph/graph.h"

namespace stitch::graph {

/// The parameter (its position) whose memory `result` takes over: a dynamic-update-slice marked in_place, of a
/// parameter that is reshaped at most. Such a result needs only the elements of its update written.
std::optional<std::size_t> updated_parameter(const Graph& graph, Value result);

}  // namespace stitch::graph
