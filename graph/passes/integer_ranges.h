#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Uses intervals of values (graph/passes/range_analysis.h), which grow from constants, iotas, unsigned types and loop
/// counters:
///
///  - an integer or pred that can have one value only is that constant: in-range tests of indices that cannot leave
///    the range, `i < 0 ? i + n : i` of what is never negative, high words of small counters;
///  - maximum, minimum, clamp, abs, remainder and masks that can never act vanish, of floats too (the maximum of 0 and
///    a uniform random number);
///  - conversions to a narrower integer move up through +, -, ·, and, or, xor, not, << (arithmetic modulo 2^bits), so
///    that the 64-bit counters of partitionable random bits become 32-bit ones.
///
/// Exact. Expects: broadcasts sunk. Stands before choices can use what it decides, in the same round.
Result<int> apply_integer_ranges(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
