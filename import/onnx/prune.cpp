#include "import/onnx/prune.h"

#include <utility>

namespace stitch::import::onnx {

using graph::NodeId;
using graph::Op;
using graph::Value;

Pruned prune(const graph::Graph& graph, const std::function<bool(NodeId parameter)>& keep) {
  std::vector<bool> live(graph.size(), false);
  for (const Value& result : graph.results()) live[result.node] = true;
  for (NodeId id = graph.size(); id-- > 0;) {
    if (!live[id]) live[id] = graph.node(id).op == Op::parameter && keep(id);
    if (!live[id]) continue;
    for (const Value& operand : graph.node(id).operands) live[operand.node] = true;
  }

  Pruned pruned;
  pruned.graph.name = graph.name;
  std::vector<NodeId> copies(graph.size(), -1);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!live[id]) continue;
    graph::Node node = graph.node(id);
    for (Value& operand : node.operands) operand.node = copies[operand.node];
    if (node.op == Op::parameter) pruned.parameters.push_back(id);
    copies[id] = pruned.graph.add_unchecked(std::move(node)).node;
  }
  std::vector<Value> results(graph.results().begin(), graph.results().end());
  for (Value& result : results) result.node = copies[result.node];
  pruned.graph.set_results(std::move(results));
  return pruned;
}

}  // namespace stitch::import::onnx
