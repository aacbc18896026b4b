#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "base/id_vector.h"
#include "graph/graph.h"
#include "kernel/index/axes.h"
#include "kernel/structure/structure_options.h"

namespace stitch::kernel {

bool is_reduction(graph::Op op);

/// Cumulative combinations: scan, associative-scan.
bool is_scan(graph::Op op);

/// Scans and sorts: several results, and a walk along their lines of their own.
bool walks_lines(graph::Op op);

/// Results are only ever read from memory.
bool is_stored_only(graph::Op op);

/// Updates of a scatter, each of which is a window of elements.
std::int64_t update_count(const graph::Graph& graph, graph::NodeId scatter);

/// Whether a scatter fills its result in one phase and adds the updates with atomics in the next. Where the order of
/// the updates matters (as it does for sums of floats that are asked to be deterministic), for few updates, and where
/// they are sorted by their places (kernel/index/sorted_indices.h) or looked for by blocks
/// (kernel/index/searched_updates.h), every element collects its own.
bool adds_atomically(const graph::Graph& graph, graph::NodeId id);

/// What a scatter whose elements collect their own updates stores: itself, or the narrower floats that it is converted
/// to, where nobody else needs it: sums of f32 that become bf16 (what a mixture of experts adds to its tokens).
graph::Value stored_of_scatter(const graph::Graph& graph, graph::NodeId scatter);

/// The type in which a value lies in scratch memory.
graph::DType accumulator_of(const graph::Graph& graph, graph::Value value);

/// In which phase of a kernel each node of its graph is computed: the first in which all that it reads is complete.
/// A reduction over more than a tile holds is complete a phase after the one that leaves its partial results.
class PhaseAssignment {
 public:
  /// The options' sets of values may grow until assign; the references outlive this.
  PhaseAssignment(const graph::Graph& graph, const AxisAnalysis& analysis, const StructureOptions& options);

  /// `earliest`: phases before which nodes are not computed.
  void assign(const std::map<graph::NodeId, int>& earliest);

  [[nodiscard]] int of(graph::NodeId id) const { return phase_[id]; }
  /// The phase in which a node's results are at hand.
  [[nodiscard]] int finished(graph::NodeId id) const { return phase_[id] + finishing_delay(id); }
  /// Whether a reduction leaves partial results, which the next phase finishes.
  [[nodiscard]] bool is_global(graph::NodeId id) const;
  /// Whether StructureOptions::gathered makes some reduction end in one tile.
  [[nodiscard]] bool gathers_any() const;

 private:
  [[nodiscard]] int finishing_delay(graph::NodeId id) const;
  [[nodiscard]] bool is_large(graph::NodeId id) const;

  const graph::Graph& graph_;
  const AxisAnalysis& analysis_;
  const StructureOptions& options_;
  IdVector<graph::NodeId, bool> gathered_;  ///< reductions that end in one tile of a phase of its own
  IdVector<graph::NodeId, int> phase_;
};

}  // namespace stitch::kernel
