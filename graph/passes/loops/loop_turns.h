#pragma once

#include <optional>
#include <vector>

#include "graph/builder.h"
#include "graph/passes/loops/turn_lines.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// A carried tensor that the body fills place by place: nothing of its initial value is left after the loop.
struct TurnWrite {
  std::size_t carried = 0;
  Value update;      ///< what a turn writes, with extent 1 along the axis
  NodeId node = -1;  ///< the dynamic-update-slice: the carried value's result but for reshapes
  TurnAxis axis;
};

/// What the turns of one loop do with indices that a counter gives. For rules on loop nodes; refers to both arguments.
class LoopTurns {
 public:
  LoopTurns(const Rewriter& graph, const Node& loop);

  /// Whether the trips (at least 2) and a counter of step 1 or -1 are known, and simplify_loops has nothing left to put
  /// into the body that would tell more of its indices. Nothing else may be asked before this holds.
  [[nodiscard]] bool known() const { return counter_.has_value(); }

  [[nodiscard]] const Node& loop() const { return loop_; }
  [[nodiscard]] const Graph& body() const { return *loop_.regions[0]; }
  [[nodiscard]] const Graph& condition() const { return *loop_.regions[1]; }
  [[nodiscard]] std::size_t carried() const { return loop_.operands.size(); }
  [[nodiscard]] std::int64_t count() const { return trips_; }

  /// Whether a value of the body depends on constants and on what every turn hands on unchanged only.
  [[nodiscard]] bool is_invariant(Value value) const { return invariant_[value.node]; }
  /// How many operands and results of the body refer to a node of it.
  [[nodiscard]] int uses(Value value) const { return uses_[value.node]; }
  /// Whether the condition reads a carried value.
  [[nodiscard]] bool decides(std::size_t carried) const { return decides_[carried]; }

  /// For a dynamic-slice that takes one place of an invariant tensor in every turn, all of them in the end.
  [[nodiscard]] std::optional<TurnAxis> read(Value slice) const;
  /// Carried tensors that are filled likewise.
  [[nodiscard]] const std::vector<TurnWrite>& writes() const { return writes_; }
  /// The order that the body's reads and writes have, as far as there are any: the one for new tensors.
  [[nodiscard]] bool usually_backward() const;

  /// The turn's place along an axis, made in a copy of the body; `parameters` are the copy's by carried value.
  Value place(Builder& copy, const std::vector<Value>& parameters, bool backward) const;

 private:
  void find_invariants();
  void find_lines(const Rewriter& graph);
  void find_writes();

  const Node& loop_;
  std::int64_t trips_ = 0;
  std::vector<bool> invariant_;  // by node of the body
  std::vector<int> uses_;
  std::optional<TurnLines> lines_;
  std::vector<bool> decides_;
  std::optional<std::size_t> counter_;
  std::vector<TurnWrite> writes_;
};

}  // namespace stitch::graph
