#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace stitch::graph {

/// Bytes of all parameters and results, each once: what computing the graph moves at least.
std::int64_t interface_bytes(const Graph& graph);

}  // namespace stitch::graph
