#include "tuning/programs/grouped_sums.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/subgraph.h"

namespace stitch::tuning {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::FragmentSite;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Rows that a sum over all leading dimensions adds up; 0: it is another reduction.
std::int64_t rows_of(const Graph& graph, const Node& node) {
  if (node.op != Op::reduce) return 0;
  const auto& attributes = node.as<graph::ReduceAttributes>();
  const DType dtype = node.type().dtype;
  const graph::TensorType& operand = graph.type(node.operands[0]);
  if (attributes.kind != graph::ReduceKind::sum || !graph::is_floating(dtype) || graph::byte_size(dtype) > 4 ||
      graph::byte_size(dtype) < 2 || operand.dtype != dtype || attributes.dimensions.size() >= operand.dims.size())
    return 0;
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < attributes.dimensions.size(); ++d) {
    if (std::ranges::count(attributes.dimensions, static_cast<std::int64_t>(d)) == 0) return 0;
    rows *= operand.dims[d];
  }
  return rows;
}

/// Rows of a group of these; 0: no group would be whole, or there is one.
std::int64_t group_of(std::int64_t rows) {
  const std::int64_t group = rows == 0 ? 0 : std::gcd(rows, most_rows_of_group);
  return group >= least_rows_of_group && rows / group >= 2 ? group : 0;
}

}  // namespace

bool GroupedSums::adds_up(const FragmentSite& site) const {
  return std::ranges::all_of(site.arguments, [&](Value value) { return groups.contains(value); });
}

Result<GroupedSums> with_grouped_sums(const Graph& graph) {
  GroupedSums sums;
  Builder builder(graph.name);
  std::map<Value, Value> made;
  std::vector<std::pair<NodeId, NodeId>> origin;  // of the copy, of the graph
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const std::int64_t rows = rows_of(graph, node), group = group_of(rows);
    if (group == 0) {
      graph::copy_node(graph, id, builder, made);
      origin.emplace_back(builder.graph().size() - 1, id);
      continue;
    }
    builder.at(node.name, node.line);
    const Dims& dims = graph.type(node.operands[0]).dims;
    Dims apart = {rows / group, group};
    const auto dropped = static_cast<std::ptrdiff_t>(node.as<graph::ReduceAttributes>().dimensions.size());
    apart.insert(apart.end(), dims.begin() + dropped, dims.end());
    // Narrow sums are made in f32, and rounded once.
    const Value wide = builder.convert(builder.reshape(made.at(node.operands[0]), apart), DType::f32);
    const Value groups = builder.reduce(graph::ReduceKind::sum, wide, {1});
    const Value sum = builder.convert(builder.reduce(graph::ReduceKind::sum, groups, {0}), node.type().dtype);
    sums.groups.insert(groups);
    made[{id, 0}] = sum;
    origin.emplace_back(sum.node, id);
  }
  STITCH_ASSIGN(sums.graph, graph::finish_copy(graph, builder, made));
  sums.origin.assign(static_cast<std::size_t>(sums.graph.size()), -1);
  for (const auto& [copy, id] : origin) sums.origin[copy] = id;
  return sums;
}

Result<FragmentSite> behind_groups(const GroupedSums& sums, const FragmentSite& site, const std::vector<Value>& groups,
                                   std::vector<Value> results) {
  const Graph& graph = sums.graph;
  const std::set<NodeId> inside(site.nodes.begin(), site.nodes.end());
  std::set<NodeId> nodes;
  std::set<Value> read;
  std::vector<Value> open = results;
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    if (std::ranges::count(groups, value) > 0 || std::ranges::count(site.arguments, value) > 0) {
      read.insert(value);
    } else if (!inside.contains(value.node)) {
      return make_error(ErrorKind::internal, "a sum of '{}', which is not in memory", graph.node(value.node).name);
    } else if (nodes.insert(value.node).second) {
      const auto& operands = graph.node(value.node).operands;
      open.insert(open.end(), operands.begin(), operands.end());
    }
  }
  FragmentSite rest;
  rest.level = site.level;
  rest.arguments.assign(read.begin(), read.end());
  rest.results = std::move(results);
  rest.nodes.assign(nodes.begin(), nodes.end());
  STITCH_ASSIGN(rest.graph, graph::subgraph(graph, rest.arguments, rest.results));
  rest.graph.constraints = site.graph.constraints;
  return rest;
}

graph::CutGraph in_two_steps(const GroupedSums& sums, graph::CutGraph cut) {
  std::vector<NodeId> now(sums.origin.size(), -1);
  for (NodeId id = 0; id < std::ssize(sums.origin); ++id) {
    if (sums.origin[id] >= 0) now[sums.origin[id]] = id;
  }
  const auto move = [&](Value& value) { value.node = now[value.node]; };
  for (FragmentSite& site : cut.fragments) {
    std::ranges::for_each(site.arguments, move);
    std::ranges::for_each(site.results, move);
    std::vector<NodeId> nodes;
    for (const NodeId id : site.nodes) {
      // A sum's first step stands before the second one.
      NodeId first = now[id];
      while (first > 0 && sums.origin[first - 1] < 0) --first;
      for (; first <= now[id]; ++first) nodes.push_back(first);
    }
    site.nodes = std::move(nodes);
  }
  for (graph::LibraryCall& call : cut.calls) {
    call.root = now[call.root];
    move(call.result);
    for (std::vector<Value>* values : {&call.operands, &call.viewed, &call.further})
      std::ranges::for_each(*values, move);
    for (NodeId& id : call.epilogue) id = now[id];
  }
  for (NodeId& id : cut.others) id = now[id];
  for (NodeId& id : cut.loops) id = now[id];
  return cut;
}

Result<FragmentSite> together(const Graph& graph, const FragmentSite& one, const FragmentSite& other) {
  FragmentSite both;
  both.level = std::max(one.level, other.level);
  std::set<NodeId> nodes(one.nodes.begin(), one.nodes.end());
  nodes.insert(other.nodes.begin(), other.nodes.end());
  both.nodes.assign(nodes.begin(), nodes.end());
  for (const FragmentSite* site : {&one, &other}) {
    both.results.insert(both.results.end(), site->results.begin(), site->results.end());
    for (const Value value : site->arguments) {
      if (std::ranges::count(both.arguments, value) == 0) both.arguments.push_back(value);
    }
  }
  STITCH_ASSIGN(both.graph, graph::subgraph(graph, both.arguments, both.results));
  both.graph.constraints = one.graph.constraints;
  return both;
}

Result<Graph> in_one_step(const GroupedSums& sums, const Graph& before, const FragmentSite& site) {
  std::vector<Value> arguments, results;
  bool is_known = true;
  for (const auto& [from, to] : {std::pair(&site.arguments, &arguments), std::pair(&site.results, &results)}) {
    for (const Value value : *from) {
      is_known = is_known && sums.origin[value.node] >= 0;
      to->push_back({sums.origin[value.node], value.result});
    }
  }
  Result<Graph> graph = is_known ? graph::subgraph(before, arguments, results)
                                 : graph::subgraph(sums.graph, site.arguments, site.results);
  if (graph) graph->constraints = site.graph.constraints;
  return graph;
}

}  // namespace stitch::tuning
