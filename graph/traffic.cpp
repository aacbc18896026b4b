#include "graph/traffic.h"

namespace stitch::graph {

std::int64_t interface_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const NodeId id : graph.parameters()) bytes += graph.node(id).type().bytes();
  for (const Value value : graph.results()) bytes += graph.type(value).bytes();
  return bytes;
}

}  // namespace stitch::graph
