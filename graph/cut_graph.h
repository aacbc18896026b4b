#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/calls/library_call.h"
#include "graph/donation.h"
#include "graph/graph.h"

namespace stitch::graph {

/// A fragment where it stands in a graph.
struct FragmentSite {
  int level = 0;                 ///< number of boundary operators on the longest way to it
  Graph graph;                   ///< its operators, as a graph of their own
  std::vector<Value> arguments;  ///< value of the surrounding graph for each parameter
  std::vector<Value> results;    ///< value of the surrounding graph that each result is
  std::vector<NodeId> nodes;     ///< operators of the surrounding graph that it computes, ascending
};

/// One graph (a model's entry or the body of a loop) cut at its boundaries.
struct CutGraph {
  std::vector<FragmentSite> fragments;  ///< by level
  std::vector<LibraryCall> calls;
  std::vector<NodeId> others;              ///< opaque operators, loops and conditionals
  std::vector<NodeId> loops;               ///< that are fragments of their own, and not among the others
  std::vector<DonationOutcome> donations;  ///< of CutOptions::donations, in their order
};

struct CutOptions {
  LibraryOptions library;
  /// Values that can be computed again from next to nothing (masks, random bits, tables) are computed where they are
  /// used instead of being stored.
  bool recompute = true;
  /// Operators that feed no boundary wait for the last level when nothing is lost by it, so that an optimizer's
  /// hundreds of updates become one fragment.
  bool sink = true;
  /// The graph is a loop's body: result i takes the place of parameter i. A value handed on as it is needs no copy, and
  /// an update of a carried tensor that nobody else reads happens in place (UpdateAttributes::in_place).
  bool carried = false;
  /// Of a model's own graph: what its caller gives away. As of what a loop carries, an update of such a tensor that
  /// nobody else reads happens in place, and what is handed on as it is stays where it is. Everything else is written
  /// to memory of its own. At most one of each parameter, and one of each result, of the same type.
  std::vector<Donation> donations = {};
  Constraints constraints = {};  ///< of the model; those of the graph are added
  /// What the generator cannot put into a kernel is a boundary.
  std::function<bool(const Graph&, NodeId)> supported;
  /// Whether a loop is to be a fragment of its own: asked with what that would be, the loop on parameters and on values
  /// that one number fills. None are when it is empty.
  std::function<bool(const Graph&)> whole_loop;
};

}  // namespace stitch::graph
