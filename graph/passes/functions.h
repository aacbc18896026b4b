#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Powers, roots and the logistic function in the operators that a GPU has:
///
///  - power(x, c) of floating x: c = 0: 1, 1: x, 2: x·x, 3: x·x·x, 4: (x·x)·(x·x), -1: 1/x, 1/2: sqrt, -1/2: rsqrt,
///    -2: 1/(x·x); of integers c = 0, 1, 2, 3, 4;
///
/// and, with `reassociate`, which power(x, 4) asks for, too:
///
///  - 1/sqrt(x) and sqrt(1/x): rsqrt(x); 1/rsqrt(x): sqrt(x); x/sqrt(y): x·rsqrt(y); x·rsqrt(y)·rsqrt(y) stays;
///  - 1/(1+exp(-x)): logistic(x); y/(1+exp(-x)): y·logistic(x);
///  - log(1+x), exp(x)-1 and the like stay: another rounding is not what was written.
///
/// Floating values agree up to rounding; power(-inf, ±1/2) is NaN instead of +inf or 0, roots of -0 keep their
/// sign, and sqrt(1/x) and rsqrt(1/x) of -0 and -inf are those of x, not of the quotient.
/// Expects: constants are splats and the second operand of add (arithmetic, before which it may also run).
Result<int> simplify_functions(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
