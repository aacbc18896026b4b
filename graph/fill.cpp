#include "graph/fill.h"

#include "graph/literal.h"

namespace stitch::graph {

std::optional<std::uint64_t> fill_bits(const Graph& graph, Value value) {
  while (graph.node(value.node).op == Op::reshape || graph.node(value.node).op == Op::broadcast)
    value = graph.node(value.node).operands[0];
  const Node& node = graph.node(value.node);
  if (node.op != Op::constant) return std::nullopt;
  const auto& constant = node.as<ConstantAttributes>();
  if (!is_splat(constant)) return std::nullopt;
  return element_bits(constant, 0);
}

}  // namespace stitch::graph
