#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace stitch::graph {

/// The bits (little-endian) of the one element that fills a value: a constant's, seen through broadcasts and reshapes.
/// Nothing when it is anything else.
std::optional<std::uint64_t> fill_bits(const Graph& graph, Value value);
/// The same as a number; integers only as far as a double holds them.
std::optional<double> fill_number(const Graph& graph, Value value);

}  // namespace stitch::graph
