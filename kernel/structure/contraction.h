#pragma once

#include <array>

#include "graph/builder.h"
#include "graph/graph.h"

namespace stitch::kernel {

/// A contraction as what the stitch explorer schedules: both sides repeated over batch, left, right and contracted
/// dimensions, multiplied, and summed over the contracted ones. Result: batch, left and right dimensions; floats in f32
/// at least, integers in the attributes' result type. `sides`: values of the builder's graph.
graph::Value products_summed(graph::Builder& builder, const std::array<graph::Value, 2>& sides,
                             const graph::DotAttributes& a);

}  // namespace stitch::kernel
