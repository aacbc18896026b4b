#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Identities of select, compare, clamp, maximum, minimum and the bit operators.
///
///  - select: constant condition, equal branches, negated condition, nested selects on one condition; of pred values
///    it is and / or / not;
///  - compare: a constant stands right, of integers with < or >=; x==x and the like of integers; pred compared with a
///    constant; a converted pred compared with 0 or 1; not(compare) is the opposite comparison (of floats only eq and
///    ne: NaN);
///  - maximum, minimum: with their identity (-inf for max, lowest integer), of equal operands, two constants in a
///    chain; clamp with an open end is maximum or minimum;
///  - and, or, xor, not, shifts: with 0 or all ones, of equal operands, double negation.
///
/// Exact; NaN included. Expects: constants are splats.
Result<int> simplify_choices(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
