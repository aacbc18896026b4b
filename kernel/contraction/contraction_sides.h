#pragma once

#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_operand.h"

// What the operator at the root of a contraction multiplies, in the form of contraction_problem.h. A dot has that form
// by itself. A convolution has it as an implicit matrix product (Chetlur et al., "cuDNN: Efficient Primitives for Deep
// Learning", arXiv 1410.0759 §3): rows are the positions of the result, columns its features, the contracted dimension
// is a window's positions and features; element (row, k) of the left operand is looked up where it lies, so that no
// patch is ever written. Of x: bf16[8,56,56,64], w: bf16[3,3,64,128] and a padding of 1:
//
//     batch 1, rows 25088, columns 128, contracted 576
//     left   rows [25088:64], contracted [3:3584][192:1], offset −3648
//            windows: row / 56 % 56 + k / 192 − 1 in [0, 56), row % 56 + k / 64 % 3 − 1 in [0, 56)
//     right  columns [128:1], contracted [576:128]
//
// Groups of features (or of a batch) are the batch. What frameworks write as the gradients of a convolution are
// convolutions again, with holes in the input (by the data) or with the result's gradient as the window (by the
// weights), and have the same form.

namespace stitch::kernel {

struct ContractionSides {
  std::int64_t batch = 1, rows = 0, columns = 0, contracted = 0;
  ContractionOperand left, right;
  /// The root's dimensions, as digits of (b · rows + m) · columns + n.
  graph::StridedView sums;
};

/// A graph's dots and convolutions, in its order.
std::vector<graph::NodeId> contraction_roots(const graph::Graph& graph);

/// Of a dot or convolution. Errors: unsupported (an operand that is computed in the kernel; a convolution whose operand
/// lies so that strides along its dimensions cannot say it, or whose index does not fit 32 bits), with the node.
Result<ContractionSides> sides_of(const graph::Graph& graph, graph::NodeId root);

/// Whether what a dot contracts is joined there in the dot's own order, which is another one where operands gain by it.
bool is_in_own_order(const graph::Graph& graph, graph::NodeId root, const ContractionSides& sides);

}  // namespace stitch::kernel
