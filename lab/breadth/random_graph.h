#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace stitch::lab {

/// A valid graph of up to a dozen operators, the same for the same seed: every operator that kernels compute, every
/// element type, extents of 0, 1, primes and powers of two and their neighbours, constants and indices at the edges of
/// their types. Nothing keeps values in a comfortable range: what the reference cannot bound is not compared.
graph::Graph random_graph(std::uint64_t seed);

}  // namespace stitch::lab
