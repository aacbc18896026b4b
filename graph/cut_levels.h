#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/id_vector.h"
#include "graph/cut_graph.h"

namespace stitch::graph {

/// Storing and reading less than this is no reason to keep an operator at its level, or to compute it again.
inline constexpr std::int64_t shared_read_bytes = 64 * 1024;

/// The first half of a cut: which operators are boundaries, and at which level every other one is computed. The level
/// is the number of boundaries on the longest way from the inputs:
///
///     %1 = exp(%0)          level 0
///     %2 = dot(%1, %1)      a boundary
///     %3 = add(%2, %2)      level 1
///     %4 = add(%0, %0)      level 0, or 1 when it may wait for %3 (CutOptions::sink)
///
/// cut() makes one and extracts each level's operators with it. It reads the graph and the options as long as it lives.
class CutLevels {
 public:
  CutLevels(const Graph& graph, const CutOptions& options);

  /// Whether the operator is no fragment's: a contraction (with its epilogue), opaque, control, or not supported.
  [[nodiscard]] bool is_boundary(NodeId id) const { return boundary_[id]; }
  /// What must be in memory before the boundary that `id` belongs to can run.
  [[nodiscard]] const std::vector<Value>& boundary_operands(NodeId id) const;

  [[nodiscard]] int level(NodeId id) const { return level_[id]; }
  [[nodiscard]] int last_level() const { return last_level_; }

  /// Whether a reader at another level computes this node for itself.
  [[nodiscard]] bool is_cloned(NodeId id) const;
  /// Needs no kernel: it is in memory already, or a boundary writes it.
  [[nodiscard]] bool is_in_place(NodeId id) const { return graph_.node(id).op == Op::parameter || boundary_[id]; }
  /// The value whose memory holds this one: a reshape is its operand under another name.
  [[nodiscard]] Value storage(Value value) const;

  /// For every node the nodes that use it.
  [[nodiscard]] const std::vector<NodeId>& uses(NodeId id) const { return uses_[id]; }

  /// Calls, other boundaries and loops of the cut; its fragments are the whole loops. Last: they are gone afterwards.
  CutGraph take_boundaries();

 private:
  void mark_boundaries();
  /// Loops that become fragments. They stay boundaries: what they read is in memory before, what they leave after.
  void find_whole_loops();
  /// A loop with what fills its operands with one number; its other operands are parameters.
  [[nodiscard]] FragmentSite loop_site(NodeId loop) const;
  void find_levels();
  void find_recomputable();
  /// Lets operators that feed no boundary wait for the last level.
  void sink_tails();
  [[nodiscard]] bool must_stay(NodeId id) const;
  /// Lets operators whose readers are all at one later level wait for these, which then need not load what they write.
  void sink_to_readers();
  [[nodiscard]] bool in_memory(Value value) const;
  [[nodiscard]] bool is_source(NodeId id) const {
    return graph_.node(id).op == Op::parameter || graph_.node(id).op == Op::constant;
  }

  static constexpr int none = -1;

  const Graph& graph_;
  const CutOptions& options_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<LibraryCall> calls_;
  std::vector<NodeId> others_;
  std::vector<NodeId> loops_;
  std::map<NodeId, FragmentSite> whole_loops_;
  IdVector<NodeId, int> call_of_;  ///< the call that writes the node, or one that computes it, or none
  IdVector<NodeId, bool> boundary_;
  IdVector<NodeId, int> level_;
  IdVector<NodeId, bool> cheap_;  ///< can be computed again from next to nothing
  IdVector<NodeId, bool> waits_;  ///< sunk to the last level
  int last_level_ = 0;
};

}  // namespace stitch::graph
