#pragma once

#include "base/random.h"
#include "graph/graph.h"

namespace stitch::graph::test {

/// A convolution of f32 with one or two spatial dimensions, small and random in everything that a convolution has: the
/// order of its dimensions, strides, padding, dilation of both sides, reversal, groups; now and then with a tensor
/// added. Empty where what was drawn is none.
Graph random_convolution(Random& random);

}  // namespace stitch::graph::test
