#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_problem.h"

// Several products that share an operand as one problem: Q, K and V of one input, the gradients of several weights by
// one activation. Of x: bf16[64,768], three right operands and what follows each:
//
//     batch 1, rows 64, columns 768 + 256 + 256, contracted 768
//     left    bf16, rows [64:768], contracted [768:1]
//     members right bf16, columns [768:1], contracted [768:768] → result [64:768][768:1]
//             right bf16, columns [256:1], contracted [768:256] → result …
//
// A tile of the result belongs to one of them; the kernel's loop is the same for all, so that their operands may differ
// in addresses, strides and columns, and in nothing else. Each has its own epilogue and result.

namespace stitch::kernel {

/// Products that one kernel has at most.
inline constexpr std::size_t most_members = 8;

/// Reads a graph of which every result is a product with its epilogue, all of one operand. What they share becomes the
/// left operand. Errors: unsupported (those of derive_contraction; one result; products that have no operand in common,
/// or whose others lie so differently that one loop does not read them), with the result's number.
Result<ContractionProblem> derive_merged(graph::Graph graph);

}  // namespace stitch::kernel
