#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace stitch::import::onnx {

/// A graph without dead code, and which node of the original each of its parameters was.
struct Pruned {
  graph::Graph graph;
  std::vector<graph::NodeId> parameters;
};

/// Copies what the results need, and those parameters that `keep` wants although nothing uses them. Regions stay as
/// they are.
Pruned prune(const graph::Graph& graph, const std::function<bool(graph::NodeId parameter)>& keep);

}  // namespace stitch::import::onnx
