#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Identities of add, subtract, multiply, divide, remainder, negate and abs.
///
///  - neutral operands: x+0, x-0, x·1, x/1, x·(-1), x/(-1); of integers also x·0, x-x, x%1, 0/x is left alone;
///  - negations move outwards and vanish: -(-x), x+(-y), x-(-y), (-x)·y, (-x)·(-y), -(x-y), sum chains;
///  - subtracting a constant is adding its negative; constants of one chain meet: (x+1)+2, (3-x)-1, (x·2)·3;
///  - division by a power of two is a multiplication; by any other constant, or by a broadcast, of f32 or f64 it is one
///    by the reciprocal (taken on the small side) with `reassociate`;
///  - small factors of one product meet on the small side: (x·b1)·b2 with broadcasts b1, b2 of which one's dimensions
///    are among the other's becomes x·(b1·b2), with `reassociate`.
///
/// Floating values: x·0, x-x and 0/x stay (NaN, infinities). The sign of a zero may change (x+0 with x = -0, -(x-y),
/// 0-x). With `reassociate` a product may overflow, underflow or round differently; a combination whose constants
/// would not be finite, normal numbers is left alone. Integers: exact modulo 2^bits.
/// Expects: broadcasts sunk, so that constants are splats. Guarantees: a constant is the second operand of add and
/// multiply.
Result<int> simplify_arithmetic(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
