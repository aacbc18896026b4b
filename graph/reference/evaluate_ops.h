#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/reference/evaluate_options.h"
#include "graph/reference/evaluate_storage.h"

namespace stitch::graph::reference {

/// The boxes of one value that are wanted, and their blocks once computed (in the order of the region's boxes).
struct Slot {
  Region region;
  std::vector<Block> blocks;   ///< as operators read them
  std::vector<Block> results;  ///< as results have them, where that differs (doubt_infinities); else empty
  int pending = 0;             ///< nodes that have yet to read it, plus one while it is wanted as a result

  /// One of those who wait for it has been served.
  void release() {
    if (--pending == 0) {
      blocks.clear();
      results.clear();
    }
  }
};

/// What evaluating one node needs to know.
struct OpContext {
  const Graph& graph;
  NodeId id;
  const EvaluateOptions& options;
  Memory& memory;
  /// One per operand; null where the operand is not demanded at all.
  std::vector<const Slot*> operands;
  /// Index operands, evaluated ahead: for a gather the index box of the output box at hand, for a scatter all indices,
  /// for dynamic slices one scalar per dimension.
  std::vector<Block> indices;
  /// What of its operand takes part in this reduction (ReduceRestriction::boxes); empty: all of it.
  std::span<const Box> kept;
  bool may_be_one_sided = false;  ///< the result's bounds: evaluate_functions.h

  [[nodiscard]] const Node& node() const { return graph.node(id); }
  [[nodiscard]] const TensorType& operand_type(std::size_t i) const { return graph.type(node().operands[i]); }
  /// Operand i on `box`, which lies within what demand() asked for. An empty box gives an empty block.
  [[nodiscard]] Result<Block> operand(std::size_t i, const Box& box) const;
  /// The same without copying: the block that holds `box`. Not for empty boxes.
  [[nodiscard]] const Block& holding(std::size_t i, const Box& box) const;
  /// Whether all blocks of all operands and indices are exact.
  [[nodiscard]] bool all_exact() const;
  [[nodiscard]] bool operand_nonnegative(std::size_t i) const;
  /// Result storage for `box`; with bounds when they are wanted and `exact` is false.
  [[nodiscard]] Result<StorageRef> make(DType dtype, const Box& box, bool exact) const {
    return memory.make(dtype, box.elements(), options.bounds && !exact);
  }
};

// demand: which boxes of each operand the box `out` of the node's result needs (regions[i] of operand i). Exact for
// everything but reshapes that split a dimension unevenly (hull of the linear range), strided slices and windows (the
// hull of what is touched). Uses context.indices and context.kept, not context.operands.
// evaluate: the box `out` of the result.

void demand(const OpContext& context, const Box& out, std::span<Region> regions);

/// broadcast, reshape, transpose, slice, concatenate, pad, reverse: what moves elements as they are, bounds and all.
bool is_layout(Op op);
void layout_demand(const OpContext& context, const Box& out, std::span<Region> regions);
Result<Block> evaluate_layout(const OpContext& context, const Box& out);

/// gather, scatter, dynamic-slice, dynamic-update-slice.
void index_demand(const OpContext& context, const Box& out, std::span<Region> regions);
Result<Block> evaluate_index(const OpContext& context, const Box& out);
/// The box of a gather's index operand that `out` reads.
Box gather_index_box(const Node& node, const TensorType& indices, const Box& out);

/// reduce, arg_reduce, max_exp_sum, scan.
void reduction_demand(const OpContext& context, const Box& out, std::span<Region> regions);
Result<Block> evaluate_reduce(const OpContext& context, const Box& out);
/// Values, then positions.
Result<std::vector<Block>> evaluate_arg_reduce(const OpContext& context, const Box& out);
/// Maxima, then sums.
Result<std::vector<Block>> evaluate_max_exp_sum(const OpContext& context, const Box& out);
Result<Block> evaluate_scan(const OpContext& context, const Box& out);

/// reduce-window, select-and-scatter.
void window_demand(const OpContext& context, const Box& out, std::span<Region> regions);
Result<Block> evaluate_window(const OpContext& context, const Box& out);

/// dot, convolution.
void contraction_demand(const OpContext& context, const Box& out, std::span<Region> regions);
Result<Block> evaluate_contraction(const OpContext& context, const Box& out);

/// constant, iota.
Result<Block> evaluate_source(const OpContext& context, const Box& out);

}  // namespace stitch::graph::reference
