#pragma once

#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "graph/graph.h"

namespace stitch::graph {

/// The part of a graph that leads from `sources` to `wanted`, as a graph of its own: its parameters are the sources in
/// their order, its results what is wanted, under the graph's constraints. Error: internal, when something wanted needs
/// a parameter that is no source.
Result<Graph> subgraph(const Graph& graph, const std::vector<Value>& sources, const std::vector<Value>& wanted);

/// By node, whether computing some of these values takes it.
std::vector<bool> needed_for(const Graph& graph, std::span<const Value> wanted);

/// What was made of these values, which all must have been.
std::vector<Value> made_of(std::span<const Value> values, const std::map<Value, Value>& made);

/// Adds a node of `graph` to another that is being built, name, line and regions included, on what was made of its
/// operands, and notes what is made of its results.
void copy_node(const Graph& graph, NodeId id, Builder& builder, std::map<Value, Value>& made);

/// The graph that has been built of `graph`: its results, under its constraints. Errors: the builder's.
Result<Graph> finish_copy(const Graph& graph, Builder& builder, const std::map<Value, Value>& made);

/// What leads to one of a graph's results, with the parameters that it needs, in their order.
Result<Graph> part_of(const Graph& graph, Value result);

}  // namespace stitch::graph
