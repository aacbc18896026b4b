#pragma once

#include "graph/cut_graph.h"

// A model's graph in pieces that can be tuned: fragments, between calls of the vendor's library and what else no kernel
// of ours computes.
//
//     y = softmax(dot(x, w) + b) · dot(z, v)
//
// is the calls dot(x, w) with + b as its epilogue and dot(z, v), and one fragment that reads both. Equal fragments of a
// model (its layers) have equal keys (graph/canonical.h) and are tuned once. Commands and the tuning of models cut the
// simplified graph and the bodies of its loops; cut_levels.h has the first half, cut_graph.h what comes out.

namespace stitch::graph {

/// Cuts a graph into fragments at contractions, opaque operators and control flow.
///
/// The level of an operator is the number of boundaries on the longest way from the inputs; all operators of one level
/// form one fragment, which is convex: a way between two of them through a boundary would raise the level. Layout
/// changes, broadcasts and widening conversions of values that are in memory anyway belong to whoever reads them.
CutGraph cut(const Graph& graph, const CutOptions& options = {});

}  // namespace stitch::graph
