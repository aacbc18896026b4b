#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph::test {

/// A valid graph of integers at the edges of what a rewrite may assume, the same for the same seed: every integer
/// dtype and pred, extents from 0 to 6, greatest and least values, conversions through floating types, slices of
/// nothing, negative padding, wrapping iotas as indices, starts far outside. (random_graph.h makes well-behaved ones.)
Graph edge_graph(std::uint64_t seed);

/// Arguments that are often the greatest or least of their dtype.
std::vector<Tensor> edge_arguments(const Graph& graph, std::uint64_t seed);

}  // namespace stitch::graph::test
