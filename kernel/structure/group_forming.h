#pragma once

#include <map>
#include <vector>

#include "kernel/structure/draft.h"
#include "kernel/structure/group_builder.h"

namespace stitch::kernel {

/// That some anchor needs a node's value in a phase in which it is not at hand: the value has to be stored, and the
/// anchor has to wait until it is in memory.
struct Missing {
  graph::NodeId node = -1;    ///< whose value is needed
  graph::NodeId reader = -1;  ///< the anchor's
  int output = -1;            ///< the result that the anchor stores, or -1
};

/// What `draft` misses when it cannot have `node`.
inline Missing missing(const Draft& draft, graph::NodeId node) { return {node, draft.node, draft.output}; }

/// Sorts the drafts of a structure into groups, one phase after the other.
///
/// Anchors belong together where one needs the reduction of another in its threads, and where they read the same large
/// values, so that each value is read once (FusionStitching's dominant merging). Each phase is first looked through by
/// find_needs, then divided by form_groups; number_reductions records what a finished group leaves for the next phase.
class GroupForming {
 public:
  GroupForming(const graph::Graph& graph, const AxisAnalysis& analysis, const PhaseAssignment& phases)
      : graph_(graph), analysis_(analysis), phases_(phases), walked_(graph.size(), 0) {}

  /// Walks from each anchor down to what it reads, noting the reductions of this phase and the loads on the way
  /// (Draft::local_reductions, finished, loads). Appends what is not at hand to `blocked`.
  void find_needs(const std::vector<Draft*>& drafts, const GroupBuilder& builder, std::vector<Missing>& blocked);

  /// The groups, each with its drafts, in order of their first node. Appends what cannot be had within a group to
  /// `blocked`; the groups are then of no use.
  std::vector<std::vector<Draft*>> form_groups(const std::vector<Draft*>& drafts, std::vector<Missing>& blocked) const;

  /// Remembers which reductions leave their partial results side by side: those of one group.
  void number_reductions(const std::vector<Draft*>& group);

 private:
  void find_needs(Draft& draft, const GroupBuilder& builder, std::vector<Missing>& blocked);
  [[nodiscard]] bool may_be_written_over(graph::Value value) const;
  [[nodiscard]] std::vector<graph::Value> roots(const Draft& draft) const;
  [[nodiscard]] std::map<graph::NodeId, int> sources_of(const std::map<graph::NodeId, std::size_t>& finish_at) const;

  const graph::Graph& graph_;
  const AxisAnalysis& analysis_;
  const PhaseAssignment& phases_;
  IdVector<graph::NodeId, int> walked_;  ///< the last walk that met the node
  int walk_ = 0;
  std::map<graph::NodeId, int> group_of_reduction_;
  int next_group_ = 0;
};

}  // namespace stitch::kernel
