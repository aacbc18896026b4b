#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Makes reductions fewer, smaller, and independent of one another.
///
///  - of a broadcast: over repeated dimensions a sum is a multiplication by the count, max, min, and, or nothing at
///    all;
///  - nested reductions of one kind are one; reshapes and transposes between or above move to the small result;
///  - a reduction of a concatenation that nothing else uses is one per part; of a pad with the kind's identity, of what
///    is padded;
///  - the sum of a one-hot selection, Σ_j select(j == i, v, 0), is v where 0 ≤ i < n and 0 elsewhere;
///  - reducing nothing gives the identity.
///
/// With `reassociate`, of sums of integers, bf16, f32 and f64 (not f16, whose sums overflow too soon):
///  - factors and divisors that are constant along the reduced dimensions, and signs, come out of the sum:
///    Σ(x·c) = c·Σx. It saves the multiplications and, more, frees the sum from waiting for c (in a norm's backward c
///    is itself a reduction), so that several sums are taken in one pass over the data and equal ones become one;
///  - the sum of deviations from their own mean, Σ(x - mean(x)), times anything, is 0. What a program computes there is
///    rounding noise about 0; where x holds infinities or NaN it is NaN, and 0 afterwards.
///
/// Expects: layout chains merged, common subexpressions merged (the mean is recognised by identity). Exact but for the
/// rounding of sums.
Result<int> simplify_reductions(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
