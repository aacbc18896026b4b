#include "graph/subgraph.h"

#include <set>

namespace stitch::graph {

Result<Graph> subgraph(const Graph& graph, const std::vector<Value>& sources, const std::vector<Value>& wanted) {
  const std::set<Value> given(sources.begin(), sources.end());
  std::set<NodeId> members;
  std::vector<NodeId> open;
  const auto need = [&](Value value) {
    if (!given.contains(value) && members.insert(value.node).second) open.push_back(value.node);
  };
  for (const Value value : wanted) need(value);
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    if (node.op == Op::parameter) return make_error(ErrorKind::internal, "parameter '{}' is not in memory", node.name);
    for (const Value operand : node.operands) need(operand);
  }
  Graph part;
  part.constraints = graph.constraints;
  std::map<Value, Value> inside;
  for (const Value source : sources) {
    STITCH_ASSIGN(inside[source], part.add(Op::parameter, {}, ParameterAttributes{graph.type(source)}));
  }
  for (const NodeId id : members) {
    Node copy = graph.node(id);
    for (Value& operand : copy.operands) operand = inside.at(operand);
    const std::int32_t results = copy.results.size();
    const Value first = part.add_unchecked(std::move(copy));
    for (std::int32_t r = 0; r < results; ++r) inside.try_emplace({id, r}, Value{first.node, r});
  }
  for (const Value value : wanted) part.add_result(inside.at(value));
  return part;
}

std::vector<bool> needed_for(const Graph& graph, std::span<const Value> wanted) {
  std::vector<bool> needed(graph.size(), false);
  for (const Value value : wanted) needed[value.node] = true;
  for (NodeId id = graph.size(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value operand : graph.node(id).operands) needed[operand.node] = true;
  }
  return needed;
}

std::vector<Value> made_of(std::span<const Value> values, const std::map<Value, Value>& made) {
  std::vector<Value> found;
  for (const Value value : values) found.push_back(made.at(value));
  return found;
}

void copy_node(const Graph& graph, NodeId id, Builder& builder, std::map<Value, Value>& made) {
  const Node& node = graph.node(id);
  builder.at(node.name, node.line);
  const Value copy = builder.add(node.op, made_of(node.operands, made), node.attributes, node.regions);
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r) made[{id, r}] = {copy.node, r};
}

Result<Graph> finish_copy(const Graph& graph, Builder& builder, const std::map<Value, Value>& made) {
  STITCH_ASSIGN(Graph copy, builder.finish(made_of(graph.results(), made)));
  copy.constraints = graph.constraints;
  return copy;
}

Result<Graph> part_of(const Graph& graph, Value result) {
  const std::vector<bool> needed = needed_for(graph, {&result, 1});
  std::vector<Value> sources;
  for (const NodeId id : graph.parameters()) {
    if (needed[id]) sources.push_back({id, 0});
  }
  return subgraph(graph, sources, {result});
}

}  // namespace stitch::graph
