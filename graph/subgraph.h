#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::graph {

/// The part of a graph that leads from `sources` to `wanted`, as a graph of its own: its parameters are the sources in
/// their order, its results what is wanted, under the graph's constraints. Error: internal, when something wanted needs
/// a parameter that is no source.
Result<Graph> subgraph(const Graph& graph, const std::vector<Value>& sources, const std::vector<Value>& wanted);

/// By node, whether computing some of these values takes it.
std::vector<bool> needed_for(const Graph& graph, std::span<const Value> wanted);

/// What leads to one of a graph's results, with the parameters that it needs, in their order.
Result<Graph> part_of(const Graph& graph, Value result);

}  // namespace stitch::graph
