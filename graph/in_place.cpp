#include "graph/in_place.h"

#include <algorithm>

namespace stitch::graph {

std::optional<std::size_t> updated_parameter(const Graph& graph, Value result) {
  const Node& update = graph.node(result.node);
  if (update.op != Op::dynamic_update_slice || !update.as<UpdateAttributes>().in_place) return std::nullopt;
  Value tensor = update.operands[0];
  while (graph.node(tensor.node).op == Op::reshape) tensor = graph.node(tensor.node).operands[0];
  const auto parameters = graph.parameters();
  const auto found = std::find(parameters.begin(), parameters.end(), tensor.node);
  if (found == parameters.end()) return std::nullopt;
  return found - parameters.begin();
}

}  // namespace stitch::graph
