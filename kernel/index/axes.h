#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace stitch::kernel {

/// An axis of a kernel's iteration space: a factor of dimensions that no operator of the kernel tells apart.
struct Axis {
  std::int64_t extent = 1;
  bool operator==(const Axis&) const = default;
};

/// Slabs of a kernel's tensors: each is taken through all phases before the next one, so that of a tensor which is too
/// large to stay on chip a slab at a time does. The outermost `count` places along `dimension` of `value`, and wherever
/// else the same axis is.
struct Slabs {
  graph::Value value;
  int dimension = -1;
  std::int64_t count = 1;  ///< 1: there are none

  bool operator==(const Slabs&) const = default;
};

/// The axes of a kernel graph, and which of them make up every dimension of every value: the loops of an iteration
/// space that all of the kernel's operators agree on, found before anything is said about who runs them.
///
///     x: f32[8,128,768] → reshape → [1024,768] → reduce over the columns → [1024]
///
///     const AxisAnalysis analysis(graph);   // axes 0 of extent 1024 and 1 of extent 768
///     analysis.of(x);                       // {0, 1}: 8 and 128 are never told apart, so they are one axis
///     analysis.reduced(sum);                // {1}
///
/// It is the first thing that is worked out for a kernel: structures are derived from it (kernel/structure), the delta
/// evaluator asks it which rows a reduction walks, and positions in a group's list of these axes are what AxisSet
/// holds.
///
/// Dimensions are refined until reshape, transpose, broadcast and reduce do nothing but regroup, reorder, repeat and
/// drop axes ([8,128,768] and [1024,768] share three axes). Where an operator moves elements in any other way (slice,
/// pad, concatenate, gather, an irregular reshape) the dimension gets a new axis on the other side: such links are
/// followed by index propagation, not by the mapping. Dimensions of extent 1 have no axes. Axes that are never told
/// apart are then merged again, so that a purely element-wise graph has one axis.
class AxisAnalysis {
 public:
  /// Analyses a kernel graph (no contractions, loops or opaque nodes). `slabs` are an axis of their own.
  explicit AxisAnalysis(const graph::Graph& graph, const Slabs& slabs = {});

  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  /// Axes of dimension `dimension` of a value, outermost first.
  [[nodiscard]] const std::vector<int>& of(graph::Value value, std::size_t dimension) const {
    return values_[value_index(value)][dimension];
  }
  /// Axes of all dimensions of a value, outermost first: the order of its elements in memory.
  [[nodiscard]] std::vector<int> of(graph::Value value) const;
  /// The axis of the slabs; -1: there are none, or the dimension cannot be cut so.
  [[nodiscard]] int slab_axis() const { return slab_axis_; }
  /// Axes that a reduce (arg_reduce, scan) node combines over, or a sort puts in order.
  [[nodiscard]] std::vector<int> reduced(graph::NodeId id) const;

 private:
  [[nodiscard]] std::size_t value_index(graph::Value value) const { return first_value_[value.node] + value.result; }

  const graph::Graph* graph_;
  std::vector<Axis> axes_;
  int slab_axis_ = -1;
  std::vector<std::size_t> first_value_;               ///< per node: index of its first result
  std::vector<std::vector<std::vector<int>>> values_;  ///< value → dimension → axes
};

}  // namespace stitch::kernel
