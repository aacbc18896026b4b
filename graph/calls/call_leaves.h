#pragma once

#include <set>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// The nodes that lead from `root` to `end`, both included; empty: none do.
std::set<NodeId> nodes_between(const Graph& graph, NodeId root, NodeId end);

/// What a call's graph reads from memory for the operands of its nodes: nothing for what is made of nothing (constants
/// and positions), and what is repeated or moved in the layout that it has there.
class CallLeaves {
 public:
  /// `inside`: the nodes that the call computes. Both must outlive it.
  CallLeaves(const Graph& graph, const std::set<NodeId>& inside) : graph_(graph), inside_(inside) {}

  /// Adds what an operand needs.
  void add(Value value);

  std::vector<Value> found;  ///< each once

 private:
  /// Whether it is made of constants and positions alone.
  [[nodiscard]] bool is_of_nothing(NodeId start) const;

  const Graph& graph_;
  const std::set<NodeId>& inside_;
};

}  // namespace stitch::graph
