#include "import/onnx/prune.h"

#include <utility>

namespace stitch::import::onnx {

using graph::NodeId;
using graph::Op;
using graph::Value;

Pruned prune(const graph::Graph& graph, const std::function<bool(NodeId parameter)>& keep) {
  const auto at = [](NodeId id) { return id; };
  std::vector<bool> live(at(graph.size()), false);
  for (const Value& result : graph.results()) live[at(result.node)] = true;
  for (NodeId id = graph.size(); id-- > 0;) {
    if (!live[at(id)]) live[at(id)] = graph.node(id).op == Op::parameter && keep(id);
    if (!live[at(id)]) continue;
    for (const Value& operand : graph.node(id).operands) live[at(operand.node)] = true;
  }

  Pruned pruned;
  pruned.graph.name = graph.name;
  std::vector<NodeId> copies(at(graph.size()), -1);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!live[at(id)]) continue;
    graph::Node node = graph.node(id);
    for (Value& operand : node.operands) operand.node = copies[at(operand.node)];
    if (node.op == Op::parameter) pruned.parameters.push_back(id);
    copies[at(id)] = pruned.graph.add_unchecked(std::move(node)).node;
  }
  std::vector<Value> results(graph.results().begin(), graph.results().end());
  for (Value& result : results) result.node = copies[at(result.node)];
  pruned.graph.set_results(std::move(results));
  return pruned;
}

}  // namespace stitch::import::onnx
