#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "kernel/structure/phase_assignment.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// An anchor before its items exist: what is to be computed, in which phase, over which axes. structure_builder makes
/// one for every reduction, every value that is kept and every part of a result; group_forming sorts those of a phase
/// into groups, and group_builder makes each an Anchor.
struct Draft {
  enum class Kind { output, piece, update, reduce, finish, keep, scan, sort, scatter, fill, add_updates };
  Kind kind = Kind::output;
  graph::NodeId node = -1;
  graph::Value value;                ///< the value whose elements the anchor ranges over
  int output = -1;                   ///< result index, for output and piece
  std::vector<std::int64_t> offset;  ///< piece: where it starts in the output
  /// scan, sort: which of the node's results it stores, and which result of the kernel each is (-1: none, kept in
  /// scratch).
  std::vector<std::pair<int, int>> stored;
  int phase = 0;
  std::vector<int> axes;                               ///< outermost first
  std::set<graph::NodeId> local_reductions, finished;  ///< reductions of this phase that it needs
  std::set<graph::NodeId> loads;  ///< nodes whose large values it reads from memory, or computes at length
  bool global = false;            ///< reduce: leaves partials
};

/// Everything that a kernel of this graph computes for its own sake, in order of the nodes. `materialised`: values that
/// are kept in scratch; `earliest_output`: by result, a phase before which it is not stored.
std::vector<Draft> make_drafts(const graph::Graph& graph, const AxisAnalysis& analysis, const PhaseAssignment& phases,
                               const std::set<graph::Value>& materialised, const std::map<int, int>& earliest_output);

}  // namespace stitch::kernel
