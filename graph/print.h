#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// The graph as stable, readable text: one line per node, regions indented below their node.
///
///     graph "norm" {
///       %0 = parameter f32[8,768]  // x
///       %1 = reduce f32[8] %0 {kind=sum, dimensions=[1]}
///       return %1
///     }
///
/// A graph under constraints says so, `graph "norm" under deterministic {`. Value %4.1 is result 1 of node 4. Constants
/// show their values up to 8 elements, then a splat or their hash.
std::string to_text(const Graph& graph);

/// One node's line, without indentation, name or regions: "%1 = reduce f32[8] %0 {kind=sum, dimensions=[1]}".
std::string to_text(const Graph& graph, NodeId id);

/// Nodes drawn inside one labelled frame.
struct NodeCluster {
  std::string label;
  std::vector<NodeId> nodes;
};

/// Graphviz source. Scalar constants are drawn inside the nodes that use them; regions as frames of their own.
std::string to_graphviz(const Graph& graph, std::span<const NodeCluster> clusters = {});

}  // namespace stitch::graph
