#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// Which nodes of a graph are the same operator of two turns of an unrolled loop, one turn apart: a partial map from
/// the later one to the earlier, one to one.
///
/// Found by walking from two nodes towards the parameters, side by side, as long as the nodes met are alike: the same
/// operator with equal attributes on equal types, or slices of one tensor. Operands of commutative operators are put in
/// the order of the later turn's: with a constant, as in the first turn, tracers write them the other way round. A walk
/// along what one turn hands to the next goes through all turns at once, and ends at what the first turn begins with.
class StepPairs {
 public:
  /// Refers to the graph.
  explicit StepPairs(const Graph& graph);

  /// Pairs two nodes and all that they are computed from. False, and nothing is paired: they are not alike, or on the
  /// way two different parameters or constants have the same place, as the weights of two layers do; without
  /// `contractions`, also where there is a dot that has not been paired before.
  bool walk(NodeId later, NodeId earlier, bool contractions);

  /// -1: there is none.
  [[nodiscard]] NodeId before(NodeId id) const { return before_[id]; }
  [[nodiscard]] NodeId after(NodeId id) const { return after_[id]; }
  /// The later nodes of all pairs.
  [[nodiscard]] const std::vector<NodeId>& paired() const { return paired_; }
  /// A node's operands, in the order of those of its pairs.
  [[nodiscard]] const std::vector<Value>& operands(NodeId id) const { return operands_[id]; }

 private:
  [[nodiscard]] bool alike(NodeId later, NodeId earlier) const;
  [[nodiscard]] int likeness(Value later, Value earlier) const;
  void put_in_order(NodeId later, NodeId earlier);

  const Graph& graph_;
  std::vector<NodeId> before_, after_;  ///< by node
  std::vector<NodeId> paired_;
  std::vector<std::vector<Value>> operands_;  ///< by node
};

/// What nodes look like from where they stand, as hashes: equal in all turns but those near the first and the last.
struct NodeKinds {
  std::vector<std::uint64_t> made_of;   ///< by node: it and what it is computed from, some operators back
  std::vector<std::uint64_t> used_for;  ///< by node: it and what is computed from it, some operators on
  std::vector<std::uint64_t> used_by;   ///< by node: it and its users
};
NodeKinds kinds_of(const Graph& graph);

/// Two nodes that may be the same operator in neighbouring turns, the later one first: it is computed from the earlier,
/// and as far as a few operators back they look the same. Of each kind of such nodes the last two, those that come
/// first in the graph before others; few enough to try them all.
std::vector<std::pair<NodeId, NodeId>> repeated_steps(const Graph& graph, const NodeKinds& kinds,
                                                      std::size_t fewest_turns);

/// The graph with one node for equal constants and equal rearrangements of one value, which frameworks write down
/// anew for every turn.
Graph with_shared_layouts(const Graph& graph);

}  // namespace stitch::graph
