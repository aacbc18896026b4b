#include "graph/passes/windows.h"

#include <algorithm>

#include "graph/passes/rewriter.h"
#include "graph/passes/window_reductions.h"
#include "graph/passes/window_selections.h"

namespace stitch::graph {
namespace {

Replacement windows_rule(Rewriter& graph, const Node& node) {
  switch (node.op) {
    case Op::reduce_window: return split_window(graph, node);
    case Op::select_and_scatter: return select_once(graph, node);
    default: return {};
  }
}

}  // namespace

Result<int> simplify_windows(Graph& graph, const PassContext&) {
  const auto is_candidate = [](const Node& node) {
    return node.op == Op::reduce_window || node.op == Op::select_and_scatter;
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_candidate)) return 0;
  return rewrite(graph, windows_rule);
}

}  // namespace stitch::graph
