#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_problem.h"

// Products of which an element of the result needs several columns: the gates of a recurrent cell, the gate of a gated
// linear unit (Shazeer 2020). Of silu(x·w) ∘ (x·v) with x: bf16[64,768] and w, v: bf16[768,2048]:
//
//     batch 1, rows 64, columns 2 × 2048, contracted 768
//     left    bf16, rows [64:768], contracted [768:1]
//     right   bf16, columns [256:8][2:v − w][8:1], contracted [768:2048]
//     result  bf16, rows [64:2048], columns [2048:1]
//
// and of an LSTM's cell behind x·w with w: f32[256,1024], whose gates are 256 columns each
//
//     right   f32, columns [32:8][4:256][8:1]         results f32, columns [256:1]: the cell, and what it shows
//
// The kernel has the columns in another order than the operand: runs of `gate_run` units, of every gate one after the
// other, so that a warp's strip of sums holds all that its results are made of.

namespace stitch::kernel {

/// Columns of a gate that follow one another.
inline constexpr int gate_run = 8;

/// Reads a graph of one dot or convolution whose columns are sliced into gates of equal width, or of two of one left
/// operand with as many columns; its results are made element by element of all of them. Errors: unsupported (other
/// numbers of gates than 2 and 4, widths that are no multiple of `gate_run`, right operands that lie otherwise than one
/// another, results that are no units' or lie along the rows), with the node.
Result<ContractionProblem> derive_gated(graph::Graph graph);

/// How the sums themselves would lie: of one dot all gates' columns, of two each one's.
Result<ContractionResult> sums_of_gates(const ContractionProblem& problem);

}  // namespace stitch::kernel
