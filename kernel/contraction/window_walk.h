#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernel/contraction/contraction_schedule.h"

// How a convolution's rows and depth are walked where the tensor copy engine brings tiles (tensor_box.h): what it
// copies at once is a box of the tensor. A tile has a box of the result's positions for rows, not rows that follow one
// another; of the input it needs the box that a window's position moves that to, whatever is padded being zeros. And a
// turn is of one position of the window, with so many features as a tile is deep, of which the last ones of a position
// may be zeros. Of the rows and the depth of a convolution of 3 × 3 positions over images of 56 × 56 with 64 features,
// in tiles of 128 rows and a depth of 64:
//
//     rows   [64:2][56:8][56:8]      extent:rows of a tile, outermost first: 32 × 7 × 7 tiles
//     depth  [3][3][64]              9 turns
//
// The engine's other mode, im2col, walks rows in their own order, but maps of it can be made by the driver alone, on
// the host: tensormap.replace has the fields of tiled maps (PTX ISA). Kernels make their maps themselves, from
// addresses, so that launches need to know of none.

namespace stitch::kernel {

struct WindowWalk {
  /// A part of the rows' index, index / (extents of the parts before) % extent.
  struct Rows {
    std::int64_t extent = 1;
    std::int64_t stride = 0;  ///< of the left operand, in elements
    int window = -1;          ///< of its windows, the one that this moves; -1: nothing reaches beyond
    std::int64_t step = 1;    ///< elements of the tensor's dimension from one row to the next
    int turned = -1;          ///< the part of the depth that moves along the same dimension, where no window says so
    int tile = 1;             ///< rows of a tile along it
    [[nodiscard]] std::int64_t tiles() const { return (extent + tile - 1) / tile; }
  };
  /// A part of the depth's index likewise.
  struct Depth {
    std::int64_t extent = 1;
    std::int64_t left = 0, right = 0;  ///< strides of the operands, in elements
    int window = -1;
  };
  std::vector<Rows> rows;    ///< innermost first
  std::vector<Depth> depth;  ///< innermost first: features that lie side by side, then positions

  [[nodiscard]] int tile_rows() const;
  [[nodiscard]] std::int64_t row_tiles() const;
  /// Rows of tile number `tile` that there are, the innermost part first.
  [[nodiscard]] std::int64_t rows_of(std::int64_t tile) const;
  [[nodiscard]] std::int64_t turns(std::int64_t block_depth) const;
};

/// Whether a schedule's tiles are such boxes: those of a convolution that comes by tensor copies, unless its rows and
/// depth are one dimension each as they are.
bool walks_windows(const ContractionProblem& problem, const ContractionSchedule& schedule);

/// With the fewest tiles of at most so many rows. Errors: constraint (holes; features that do not lie side by side;
/// several products; windows that are no whole part of rows or depth).
Result<WindowWalk> window_walk(const ContractionProblem& problem, int block_rows);

}  // namespace stitch::kernel
