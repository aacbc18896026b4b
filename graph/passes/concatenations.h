#pragma once

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// The rules of graph/passes/slices.h that make or merge concatenations.
Replacement concatenation(Rewriter& graph, const Node& node);

/// An addition (tree) of pieces padded with zeros along one dimension that together tile a stretch of it: their
/// concatenation, padded by what is left at the ends.
Replacement sum_of_pads(Rewriter& graph, const Node& node);

}  // namespace stitch::graph
