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
//
// Of the input of a convolution, f16[64,56,56,64] under windows of 3 × 3 (window_walk.h):
//
//     dimensions [64:1] [56:64] [56:3584] [64:200704]
//     box        [64] [8] [8] [2]         at k, 8 × tile − 1 + position of the window, …

namespace stitch::kernel {

struct TensorBox {
  /// Where a box begins along a dimension, beside `base`.
  struct Place {
    std::int64_t base = 0;
    bool depth = false, free = false;  ///< the tile's first element there
    int rows = -1;                     ///< the tile's first row along this part of WindowWalk::rows, × `step`
    std::int64_t step = 1;
    /// And the turn's place along these parts of WindowWalk::depth, × a step each.
    std::vector<std::pair<int, std::int64_t>> turns = {};
  };
  std::int64_t offset = 0;  ///< of the first element, in elements
  /// The contiguous one, the other one of free and contracted, then digits of the batch, outermost first. Of windows
  /// the contiguous one, those that a tile has several elements along, others, and the batch.
  std::vector<graph::StridedView::Digit> dimensions;
  int lines = 0;  ///< of a box, along all but the contiguous dimension
  int line_elements = 0;
  int copies = 1;  ///< boxes of a tile, or of this block's share of it, side by side along the contiguous dimension
  bool parts_lines = false;  ///< of panels: a block brings a share of each one's lines, not so many of them
  /// Elements of a box along each dimension, those that are stepped over included, and steps. Of windows alone.
  std::vector<int> extents = {}, steps = {};
  std::vector<Place> places = {};  ///< of windows: along each dimension that is none of the batch
};

/// Of a tile of `free` × `depth`, of which a block brings 1 / `shares`. The tile lies as wgmma reads it: lines of at
/// most 128 bytes along the depth, or panels of 64 elements along the free dimension. Errors: constraint, with what is
/// in the way (windows, digits that are no dimension, strides of no 16 bytes, shares that are no whole boxes).
Result<TensorBox> tensor_box_of(const ContractionOperand& operand, std::int64_t free_extent, std::int64_t contracted,
                                int free, int depth, int shares);

/// Blocks that bring one tile together, of which each gets all: of the left operand those of a row, where their shares
/// are whole boxes, and of the right one those below one another (of pairs, of which each block has half of the
/// columns, those of other pairs that have the same half). 1: every block brings its own.
struct TensorShares {
  int left = 1, right = 1;
};
TensorShares tensor_shares(const ContractionProblem& problem, const ContractionSchedule& schedule);

/// The boxes of a schedule's operands, in the order of left_operands(problem) and right_operands(problem).
Result<std::vector<TensorBox>> left_boxes(const ContractionProblem& problem, const ContractionSchedule& schedule);
Result<std::vector<TensorBox>> right_boxes(const ContractionProblem& problem, const ContractionSchedule& schedule);

}  // namespace stitch::kernel
