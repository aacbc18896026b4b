#pragma once

#include <vector>

#include "base/result.h"
#include "kernel/contraction/contraction_problem.h"

// Norms behind a product: what follows the sums may combine whole rows of them (a mean, a variance, a softmax's
// greatest), where blocks beside one another have all columns of a row. Of layer_norm(x·w + residual):
//
//     value     residual stream: Σₖ x·w + residual                 may be stored, too
//     level 0   sum over a row of it                               in all blocks of the row before …
//     level 1   … the sum over a row of (value − mean)²
//     result    (value − mean) · rsqrt(variance + ε) · γ + β

namespace stitch::kernel {

/// The reductions behind the root that results need, in the graph's order. Errors: unsupported (one that combines
/// anything but whole rows of the product, all of them; rows that are not combined in f32; more than most_row_levels,
/// one after another; any under batch_invariant), with the node. `sums`: the root's result by the problem's own order.
Result<std::vector<RowReduction>> row_reductions_of(const ContractionProblem& problem, const graph::StridedView& sums);

/// How often a kernel waits for the rest of its rows at most.
inline constexpr int most_row_levels = 4;
/// Of a problem's reductions, how many follow one another.
int row_levels(const ContractionProblem& problem);

/// Of a problem with reductions over rows: the product up to the last value that all of its results, and all
/// reductions, are made of: what a kernel would store that leaves the rows to another one.
Result<graph::Graph> without_rows(const ContractionProblem& problem);

}  // namespace stitch::kernel
