#include "graph/fill.h"

#include "graph/literal.h"

namespace stitch::graph {
namespace {

/// The constant of equal elements that a value repeats; null: there is none.
const ConstantAttributes* filling(const Graph& graph, Value value) {
  while (graph.node(value.node).op == Op::reshape || graph.node(value.node).op == Op::broadcast)
    value = graph.node(value.node).operands[0];
  const Node& node = graph.node(value.node);
  if (node.op != Op::constant) return nullptr;
  const auto& constant = node.as<ConstantAttributes>();
  return is_splat(constant) ? &constant : nullptr;
}

}  // namespace

std::optional<std::uint64_t> fill_bits(const Graph& graph, Value value) {
  const ConstantAttributes* constant = filling(graph, value);
  return constant != nullptr ? std::optional(element_bits(*constant, 0)) : std::nullopt;
}

std::optional<double> fill_number(const Graph& graph, Value value) {
  const ConstantAttributes* constant = filling(graph, value);
  return constant != nullptr ? std::optional(element(*constant, 0)) : std::nullopt;
}

}  // namespace stitch::graph
