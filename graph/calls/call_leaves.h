#pragma once

#include <set>
#include <span>
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

/// What a call computes, as a graph of its own: of its distinct operands, in order. Error: internal (it needs more).
Result<Graph> own_graph(const Graph& graph, const LibraryCall& call);

/// Which values calls leave in memory.
class CallValues {
 public:
  /// The graph must outlive it.
  CallValues(const Graph& graph, std::span<const LibraryCall> calls);

  /// Whether a call computes it on its way to its results, so that it is never in memory.
  [[nodiscard]] bool is_within(Value value) const { return within_[value.node] && !written_.contains(value); }
  /// What is read of memory for the operand of a dot: behind its layouts, but not behind what a call writes.
  [[nodiscard]] Value in_memory(Value operand) const;

 private:
  const Graph& graph_;
  std::vector<bool> within_;  ///< by node, whether a call computes it
  std::set<Value> written_;
};

/// What a call's graph reads from memory for the operands of its nodes: nothing for what is made of nothing (constants
/// and positions), and what is repeated or moved in the layout that it has there.
class CallLeaves {
 public:
  /// `inside`: the nodes that the call computes. `of_little`: so is what is made, element by element, of few tensors
  /// that are much smaller: masks of lengths or segments, and random numbers, of which everybody who has their key
  /// draws the same (a dropout's, forward and backward). Both must outlive it.
  CallLeaves(const Graph& graph, const std::set<NodeId>& inside, bool of_little = false)
      : graph_(graph), inside_(inside), of_little_(of_little) {}

  /// Adds what an operand needs.
  void add(Value value);

  std::vector<Value> found;  ///< each once

 private:
  /// Whether it is made of constants and positions alone.
  [[nodiscard]] bool is_of_nothing(NodeId start) const;
  /// What a value is made of that is much smaller; empty: it is made of more than that.
  [[nodiscard]] std::vector<Value> little_behind(Value value) const;

  const Graph& graph_;
  const std::set<NodeId>& inside_;
  const bool of_little_;
};

}  // namespace stitch::graph
