#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernel/contraction/contraction_shape.h"

// What the tensor copy engine is told of an operand (PTX ISA, "Tensor-map"): its dimensions in device memory, and the
// box of them that one copy brings. Of a left operand bf16[4096,1024] in tiles of 128 × 64:
//
//     dimensions [1024:1] [4096:1024]     extent:stride, in elements, the contiguous one first
//     box        [64] [128]

namespace stitch::kernel {

struct TensorBox {
  /// The contiguous one, the other one of free and contracted, then digits of the batch, outermost first.
  std::vector<graph::StridedView::Digit> dimensions;
  int lines = 0;  ///< of a box, along the second dimension
  int line_elements = 0;
  int copies = 1;  ///< boxes of a tile, or of this block's share of it, side by side along the contiguous dimension
};

/// Of a tile of `free` × `depth`, of which a block brings 1 / `shares`. The tile lies as wgmma reads it: lines of at
/// most 128 bytes along the depth, or panels of 64 elements along the free dimension. Errors: constraint, with what is
/// in the way (windows, digits that are no dimension, strides of no 16 bytes, shares that are no whole boxes).
Result<TensorBox> tensor_box_of(const ContractionOperand& operand, std::int64_t free_extent, std::int64_t contracted,
                                int free, int depth, int shares);

/// Blocks that bring one tile together, of which each gets all: of the left operand those of a row, where their shares
/// are whole boxes, and of the right one those below one another. 1: every block brings its own.
struct TensorShares {
  int left = 1, right = 1;
};
TensorShares tensor_shares(const ContractionProblem& problem, const ContractionSchedule& schedule);

/// The boxes of a schedule's operands, in the order of left_operands(problem) and right_operands(problem).
Result<std::vector<TensorBox>> left_boxes(const ContractionProblem& problem, const ContractionSchedule& schedule);
Result<std::vector<TensorBox>> right_boxes(const ContractionProblem& problem, const ContractionSchedule& schedule);

}  // namespace stitch::kernel
