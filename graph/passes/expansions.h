#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Special functions that a framework has written out, by what they compute instead of how: a chain of element-wise
/// operators of one input and constants, long enough and with enough constants to hold a polynomial, is evaluated on
/// some 1,300 arguments, and where it agrees with erf or erfc (of x or of -x) to a few roundoffs of its type, that
/// operator takes its place. XLA hands over the 65 operators of an erfc for every exact GELU: two polynomials, two
/// divisions and an exponential, of which the other branch is thrown away.
///
/// Values agree up to the accuracy of the expansion; infinities and NaN get what the function gives. Runs only with
/// `reassociate`. Stands behind fold-constants, which makes splats of the coefficients, and before what would work
/// on 65 operators instead of one; the form that other passes give them does not matter.
/// Expects: constants are splats (fold_constants).
Result<int> recognise_expansions(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
