#include "graph/passes/dead_code.h"

#include "graph/passes/rewriter.h"

namespace stitch::graph {

Result<int> remove_dead_code(Graph& graph, const PassContext&) {
  const NodeId before = graph.size();
  STITCH_TRY(rewrite(graph, [](Rewriter&, const Node&) { return Replacement(); }));
  return before - graph.size();
}

}  // namespace stitch::graph
