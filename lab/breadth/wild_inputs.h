#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/reference/tensor.h"

namespace stitch::lab {

/// What random arguments are like.
enum class Wildness : std::uint8_t {
  plain,     ///< floats around ±1, small integers
  notable,   ///< every eighth element is NaN, an infinity, a zero of either sign, a denormal, the greatest or least
  all_bits,  ///< any bits that the type has
};

/// Whole arguments for the graph's parameters, a pure function of the seed. Nothing keeps indices inside, divisors from
/// zero or shifts below the width: docs/ir.md defines all of that.
std::vector<graph::Tensor> wild_inputs(const graph::Graph& graph, Wildness wildness, std::uint64_t seed);

}  // namespace stitch::lab
