#pragma once

#include <cstdint>

#include "graph/dtype.h"
#include "graph/op.h"

namespace stitch::graph {

/// The element that leaves any other unchanged under `kind`, as the little-endian bits of one `dtype` element
/// (-inf for a floating max, the largest value for an integer min, …). `replace` has none and gives 0.
std::uint64_t identity_bits(ReduceKind kind, DType dtype);

/// The binary operator that combines two elements.
Op combining_op(ReduceKind kind);

}  // namespace stitch::graph
