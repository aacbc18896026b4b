#pragma once

#include <cstdint>
#include <vector>

namespace stitch::graph {

/// A directed acyclic graph with coloured vertices and labelled edges; what canonical_order knows of a Graph.
/// Every edge goes from a lower to a higher vertex. Parallel edges are allowed.
struct ColouredGraph {
  struct Edge {
    int from = 0;
    int to = 0;
    std::uint64_t label = 0;
  };
  std::vector<std::uint64_t> colours;  ///< by vertex; equal colours: nothing but the edges tells two vertices apart
  std::vector<Edge> edges;
};

/// An order of the vertices that does not depend on how they were numbered.
struct CanonicalOrder {
  std::vector<int> order;  ///< position → vertex
  /// False when the search budget ran out among vertices that refinement cannot tell apart: the order is still valid
  /// for this numbering, but an isomorphic graph may get another one.
  bool exact = true;
};

/// Canonical labelling: colour refinement over predecessors and successors to a fixpoint (1-dimensional
/// Weisfeiler-Leman; sweeps in and against topological order), then individualise and refine with pruning by the
/// automorphisms found (McKay and Piperno, Practical graph isomorphism II, 2014).
///
/// What has become unique in its component is removed first and each remaining component is labelled on its own, so
/// hundreds of interchangeable components (an optimizer's updates) cost no more than their size. `budget` bounds the
/// refinements after individualising; graphs of real models need none.
CanonicalOrder canonical_order(const ColouredGraph& graph, int budget = 20000);

}  // namespace stitch::graph
