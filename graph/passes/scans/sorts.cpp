#include "graph/passes/scans/sorts.h"

#include <algorithm>
#include <map>

#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

/// By sort, how many elements of its lines anything reads.
std::map<NodeId, std::int64_t> wanted_counts(const Graph& graph) {
  std::map<NodeId, std::int64_t> wanted;
  const auto want = [&](NodeId sort, std::int64_t count) {
    std::int64_t& most = wanted[sort];
    most = std::max(most, count);
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    for (const Value operand : node.operands) {
      const Node& sort = graph.node(operand.node);
      if (sort.op != Op::sort) continue;
      const std::size_t d = sort.as<SortAttributes>().dimension;
      const bool part = node.op == Op::slice && node.as<SliceAttributes>().limits[d] > 0;
      want(operand.node, part ? node.as<SliceAttributes>().limits[d] : sort.as<SortAttributes>().count);
    }
  }
  for (const Value result : graph.results()) {
    const Node& sort = graph.node(result.node);
    if (sort.op == Op::sort) want(result.node, sort.as<SortAttributes>().count);
  }
  return wanted;
}

/// Slices stay valid: none reaches beyond what is left.
int narrow(Graph& graph) {
  const std::map<NodeId, std::int64_t> wanted = wanted_counts(graph);
  int changes = 0;
  std::vector<Value> results(graph.results().begin(), graph.results().end());
  std::vector<Node> nodes = graph.release_nodes();
  for (const auto& [id, count] : wanted) {
    Node& sort = nodes[id];
    auto a = sort.as<SortAttributes>();
    if (count >= a.count) continue;
    a.count = count;
    sort.attributes = a;
    for (TensorType& type : sort.results) type.dims[a.dimension] = count;
    ++changes;
  }
  graph.adopt_nodes(std::move(nodes));
  graph.set_results(std::move(results));
  return changes;
}

/// Without what goes along in vain.
Replacement without_unread(Rewriter& graph, const Node& node) {
  if (node.op != Op::sort || node.operands.size() == 1) return {};
  const std::vector<bool> used = graph.used_results(node);
  if (std::all_of(used.begin() + 1, used.end(), [](bool each) { return each; })) return {};
  std::vector<Value> operands;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (i == 0 || used[i]) operands.push_back(node.operands[i]);
  }
  const Value sort = graph.add(Op::sort, operands, node.as<SortAttributes>());
  std::vector<Value> results;
  std::int32_t next = 0;
  // Whatever stands for what nobody reads.
  for (std::size_t i = 0; i < used.size(); ++i)
    results.push_back(i == 0 || used[i] ? Value{sort.node, next++} : Value{-1, 0});
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (results[i].node < 0) results[i] = graph.filled(node.type(static_cast<std::int32_t>(i)), 0);
  }
  return results;
}

}  // namespace

Result<int> simplify_sorts(Graph& graph, const PassContext&) {
  const bool any = std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.op == Op::sort; });
  if (!any) return 0;
  const int narrowed = narrow(graph);
  STITCH_ASSIGN(const int dropped, rewrite(graph, without_unread));
  return narrowed + dropped;
}

}  // namespace stitch::graph
