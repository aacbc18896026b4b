#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/attributes.h"

namespace stitch::graph {

/// Of an operand of a dot with `rank` dimensions, those that the result keeps as rows or columns, in their order.
Dims free_dimensions(std::size_t rank, const Dims& batch, const Dims& contracting);

/// Product of the extents of some dimensions.
std::int64_t product_of(const Dims& dims, const Dims& dimensions);

}  // namespace stitch::graph
