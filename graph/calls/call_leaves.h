#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/calls/library_call.h"
#include "graph/graph.h"

namespace stitch::graph {

/// The nodes that lead from `root` to `end`, both included; empty: none do.
std::set<NodeId> nodes_between(const Graph& graph, NodeId root, NodeId end);

/// Whether anybody but the nodes `inside` uses what one of them makes, `end` aside. `uses`: users() of the graph;
/// `results`: its is_result().
bool is_needed_outside(const std::set<NodeId>& inside, NodeId end, const std::vector<std::vector<NodeId>>& uses,
                       const std::vector<bool>& results);

/// "dot f32[1024,768]·f32[768,3072], add, maximum".
std::string describe_call(const Graph& graph, const LibraryCall& call);

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
