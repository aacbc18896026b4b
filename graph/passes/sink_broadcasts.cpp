#include "graph/passes/sink_broadcasts.h"

#include "graph/infer_checks.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

Replacement sink_broadcasts_rule(Rewriter& graph, const Node& node) {
  if (!is_elementwise(node.op)) return {};
  const Dims& wide = node.type().dims;
  std::vector<bool> mapped(wide.size(), false);
  for (const Value& operand : node.operands) {
    if (!graph.is(operand, Op::broadcast)) return {};
    for (const std::int64_t d : graph.node(operand).as<BroadcastAttributes>().mapping) mapped[d] = true;
  }
  Dims small, mapping;
  std::vector<std::int64_t> position(wide.size(), -1);
  for (std::size_t d = 0; d < wide.size(); ++d) {
    if (!mapped[d]) continue;
    position[d] = small.size();
    small.push_back(wide[d]);
    mapping.push_back(d);
  }
  if (small.size() == wide.size()) return {};
  std::vector<Value> operands;
  for (const Value& operand : node.operands) {
    Dims inner = graph.node(operand).as<BroadcastAttributes>().mapping;
    for (std::int64_t& d : inner) d = position[d];
    operands.push_back(graph.broadcast(graph.operand(operand), small, inner));
  }
  const Value value = graph.add(node.op, operands, node.attributes);
  std::vector<Value> results;
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    const Value narrow{value.node, value.result + static_cast<std::int32_t>(i)};
    results.push_back(graph.broadcast(narrow, wide, mapping));
  }
  return results;
}

}  // namespace

Result<int> sink_broadcasts(Graph& graph, const PassContext&) { return rewrite(graph, sink_broadcasts_rule); }

}  // namespace stitch::graph
