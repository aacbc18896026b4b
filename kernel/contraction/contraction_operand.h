#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/dtype.h"
#include "graph/graph.h"
#include "graph/strided_view.h"

// Where the elements of a contraction's operands lie (contraction_problem.h), and how they can be copied.

namespace stitch::kernel {

/// One of the joined dimensions of a tensor: element i lies at the sum of its digits × strides; outermost first, none
/// for an extent of 1. Strides are elements; 0 where an operand repeats.
using ContractionDigits = std::vector<graph::StridedView::Digit>;

/// A dimension of an operand over which windows are moved, and that they may reach beyond: element (i, k) of the free
/// and the contracted dimension is at the coordinate base + free(i) · step + contracted(k) · step. Outside of the
/// dimension, and in its holes, it is zero.
struct WindowDimension {
  /// One of the joined dimensions: index / divisor % extent, of which the remainder is idle where it is outermost.
  struct Position {
    std::int64_t divisor = 1, extent = 1;
    bool outermost = false;
    std::int64_t step = 0;
    bool operator==(const Position&) const = default;
  };
  Position free, contracted;
  std::int64_t base = 0;
  std::int64_t extent = 0;  ///< coordinates from the first element to the last
  std::int64_t holes = 1;   ///< every such coordinate has an element
  std::int64_t stride = 0;  ///< of the element's number; 0: the operand's digits say where it lies

  bool operator==(const WindowDimension&) const = default;
};

/// Left or right operand.
struct ContractionOperand {
  int parameter = -1;  ///< argument of the graph
  graph::DType dtype = graph::DType::f32;
  std::int64_t offset = 0;  ///< of its first element, in elements
  ContractionDigits batch;
  ContractionDigits free;  ///< rows of the left, columns of the right
  ContractionDigits contracted;
  std::vector<WindowDimension> windows = {};  ///< of a convolution's input

  bool operator==(const ContractionOperand&) const = default;
};

/// An operand whose elements are computed while they are loaded (computed_operand.h), and what that takes.
struct ComputedOperand {
  bool left = true;        ///< which operand it is
  int parameter = -1;      ///< of the problem's graph, which stands for it
  graph::Value value;      ///< of the graph that computes it
  std::vector<int> reads;  ///< parameters that it is made of, ascending
  /// What is loaded for each element, and once for all elements that are copied together.
  struct Loads {
    int count = 0, bytes = 0;
    int narrow = 0;  ///< of fewer than 4 bytes: widened for themselves
    bool operator==(const Loads&) const = default;
  };
  Loads each, together;
  int tensor_bytes = 0;          ///< of those for each element, what no other row and depth is made of
  std::int64_t small_bytes = 0;  ///< of all elements: what is read besides, vectors and the like
  double instructions = 0;       ///< of an element, besides loads
  /// Of elements that are zero wherever a condition says so (shown_depth.h): for how many rows and how much of depth it
  /// is the same. 0: there is none, or asking it would take as much as the elements do.
  struct Condition {
    std::int64_t rows = 0, depth = 0;
    bool of_batch = false;  ///< it is another for each batch
    bool operator==(const Condition&) const = default;
  };
  Condition condition;

  bool operator==(const ComputedOperand&) const = default;
};

/// Scales of parts of the contracted dimension (scaled_contraction.h), and what reading one takes.
struct DepthScales {
  std::int64_t depth = 0;                                ///< of a part; the last one may be shorter
  std::int64_t same_rows = 1, same_columns = 1;          ///< that have the same factor, from a multiple of so many on
  std::vector<int> reads;                                ///< parameters that they are made of, ascending
  std::int64_t bytes = 0;                                ///< of these
  double row_instructions = 0, column_instructions = 0;  ///< of one factor, loads included
  /// What computes them, with the parameters of the whole: of the scaled sums all of their scales, else those of the
  /// dot's left or right operand (`sides`: left), where they are scaled.
  std::shared_ptr<const graph::Graph> graph;
  bool of_sums = false;
  std::vector<bool> sides;
  graph::DotAttributes dot;        ///< as it is in the whole
  graph::Dims lhs_dims, rhs_dims;  ///< of its operands
  std::size_t parts = 0;           ///< of scaled sums: which batch dimension the parts are
  bool other_side = false;         ///< whether the problem's rows are the dot's columns
};

/// Which of an operand's joined dimensions its elements lie side by side along.
enum class Contiguity : std::uint8_t { contracted, free, none };
Contiguity contiguity(const ContractionOperand& operand);

/// Largest power of two of bytes, up to 16, that one access may take along the contiguous dimension: aligned wherever
/// it begins, never across the end of a digit, all of it within the windows or outside. At least the size of an
/// element.
int widest_access(const ContractionOperand& operand);

/// Whether the same expression, but for addresses and strides, finds an element of both, wherever they have it; the
/// outermost extents may differ.
bool read_alike(const ContractionOperand& a, const ContractionOperand& b);

/// Whether elements follow one another along the innermost of these dimensions.
bool runs(const ContractionDigits& digits);
/// Whether every place that such digits name, but for those along the innermost where it is `contiguous`, is a multiple
/// of so many elements; the innermost is then whole runs of them.
bool multiples(const ContractionDigits& digits, std::int64_t elements, bool contiguous);

/// Bytes that one access takes at most.
inline constexpr int widest_bytes = 16;

}  // namespace stitch::kernel
