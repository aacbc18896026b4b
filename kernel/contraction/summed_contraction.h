#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_problem.h"

// Products whose results are added, as one problem: the gradient by the input of Q, K and V is dQ·Wqᵀ + dK·Wkᵀ +
// dV·Wvᵀ, that of a weight which several steps use the sum of theirs. It is a product whose contracted dimension has
// one part for each, so that no sum on the way is in memory. Of dq: bf16[512,768], dk and dv: bf16[512,256]:
//
//     batch 1, rows 512, columns 1024, contracted 768 + 256 + 256
//     terms left bf16, rows [512:768], contracted [768:1]; right bf16, columns [1024:768], contracted [768:1]
//           left bf16, rows [512:256], contracted [256:1]; right bf16, columns [1024:256], contracted [256:1]
//           …
//
// A tile of the contracted dimension belongs to one term; the kernel's loop is the same for all, so that their operands
// may differ in addresses, strides and depth, and in nothing else. What else is added, and what is made of the sum, is
// the epilogue. Sums of narrow results are added in the accumulator's type: more exact than the graph says.

namespace stitch::kernel {

/// Products that are added in one kernel at most: by the copy engine each has two tensor maps.
inline constexpr std::size_t most_terms = 7;

/// Reads a graph of several dots that lead to its results through their sum alone: each through layouts, conversions
/// and additions, which nobody else reads. Errors: unsupported (those of derive_contraction of the first one with what
/// is behind the sum; one dot; other ways; dots that lie so differently that one loop does not read them), with the
/// node.
Result<ContractionProblem> derive_summed(graph::Graph graph);

/// The first product with all that is behind the sum, as a problem of its own: what would be left if the others were
/// kernels before.
ContractionProblem without_other_terms(ContractionProblem problem);

/// The others' dots in `problem.summed`, in the order of the terms from the second on.
std::vector<graph::NodeId> other_roots(const ContractionProblem& problem);

}  // namespace stitch::kernel
