#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes/loops/turn_lines.h"

namespace stitch::kernel {

/// What one kernel that runs all turns of a loop does with one of the loop's carried values.
struct CarriedValue {
  enum class Kind : std::uint8_t {
    invariant,  ///< every turn hands it on as it is
    state,      ///< what a turn hands to the next one; kept in the blocks' shared memory
    stacked,    ///< every turn writes its own slice of it in place, all turns together all of it, and none reads it
  };
  Kind kind = Kind::invariant;
  /// Dimension of the carried value (of a stacked one: of `update`) whose elements are the rows; -1: it has none.
  int row_dimension = -1;
  graph::NodeId update = -1;  ///< of a stacked value: the dynamic-update-slice of the body
  int turn_dimension = -1;    ///< of a stacked value: dimension of `update` along which turns take a slice each
};

/// A loop whose turns compute every row from nothing but the same row of what the turn before left (and what all rows
/// share): a recurrent cell, whose rows are the sequences of a batch.
struct RowSplit {
  std::int64_t turns = 0;
  std::int64_t rows = 0;
  std::vector<CarriedValue> carried;
  /// Slices of the body that take the next place of an invariant value in every turn: dynamic-slice, and along what.
  std::map<graph::NodeId, graph::TurnAxis> sequences;
};

/// The loop that a kernel graph is, if it is nothing else: its operands are parameters, or are filled with one number.
std::optional<graph::NodeId> recurrent_loop(const graph::Graph& kernel);

/// Rows are along the first dimension of a carried value that has at least 128 of them and works for all values; where
/// none has so many, along the one with most: a block takes some rows, and few rows are few blocks.
/// Fails with kind constraint, saying what keeps the rows together: a trip count that is not known, a value of which
/// some row needs other rows, a tensor that is read and updated, an operator that no kernel computes.
Result<RowSplit> split_rows(const graph::Graph& kernel, graph::NodeId loop);

/// Dimension of operand `operand` along which it has the elements that the node's result has along `dimension`, in the
/// same order and all of them; -1 when the operand does not vary along it; nothing when it is not as plain as that.
std::optional<int> operand_dimension(const graph::Graph& graph, graph::NodeId node, std::size_t operand, int dimension);

/// Whether operand_dimension knows it of every operand: rows of the result are made of rows of the operands.
bool rows_are_plain(const graph::Graph& graph, graph::NodeId node, int dimension);

}  // namespace stitch::kernel
