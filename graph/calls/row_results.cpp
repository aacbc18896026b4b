#include "graph/calls/row_results.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/calls/call_leaves.h"

namespace stitch::graph {
namespace {

bool follows(Op op) {
  return is_elementwise(op) || op == Op::reshape || op == Op::transpose || op == Op::broadcast || op == Op::reduce;
}

class RowJoiner {
 public:
  RowJoiner(const Graph& graph, const std::vector<LibraryCall>& calls)
      : graph_(graph), values_(graph, calls), uses_(users(graph)), results_(is_result(graph)) {
    for (const LibraryCall& call : calls) {
      taken_.insert(call.root);
      taken_.insert(call.epilogue.begin(), call.epilogue.end());
    }
  }

  /// The call with the reductions behind it; nothing: it has none, or others need what is between.
  [[nodiscard]] std::optional<LibraryCall> joined(const LibraryCall& call) const {
    std::optional<std::set<NodeId>> inside = nodes_of(call);
    if (!inside) return std::nullopt;
    take_masks(call.root, *inside);
    LibraryCall made = call;
    made.epilogue.clear();
    std::vector<Value> written;
    for (const NodeId id : *inside) {
      if (id != call.root) made.epilogue.push_back(id);
      const bool leaves = !std::ranges::all_of(uses_[id], [&](NodeId user) { return inside->contains(user); });
      if (!results_[id] && !leaves) continue;
      if (is_full(id, call.root)) return std::nullopt;
      written.push_back({id, 0});
    }
    if (written.empty()) return std::nullopt;
    made.result = written.front();
    made.further.assign(written.begin() + 1, written.end());
    read(made, *inside);
    made.description = fmt::format("{}, rows of it combined {}", describe_product(call), written.size());
    return may_run(made, *inside) ? std::optional(made) : std::nullopt;
  }

 private:
  [[nodiscard]] std::int64_t elements(NodeId id) const { return graph_.type({id}).elements(); }
  [[nodiscard]] bool is_full(NodeId id, NodeId root) const { return elements(id) == elements(root); }

  /// Root and what the call computes: all of the product's size that follows it, the reductions of that, and what of
  /// these leads to the former again. Nothing: no reduction, one that is all there is, or another call's nodes.
  [[nodiscard]] std::optional<std::set<NodeId>> nodes_of(const LibraryCall& call) const {
    std::vector<bool> depends(graph_.size(), false), is_within(graph_.size(), false);
    std::vector<NodeId> within = {call.root};
    depends[call.root] = is_within[call.root] = true;
    bool stops = false;
    for (NodeId id = call.root + 1; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const auto behind = [&](Value operand) { return bool(depends[operand.node]); };
      if (std::ranges::none_of(node.operands, behind)) continue;
      depends[id] = true;
      const bool own = std::ranges::all_of(node.operands,
                                           [&](Value operand) { return !behind(operand) || is_within[operand.node]; });
      const bool reads_full = std::ranges::any_of(
          node.operands, [&](Value operand) { return is_within[operand.node] && is_full(operand.node, call.root); });
      if (own && follows(node.op) && (node.op != Op::reduce || reads_full)) {
        is_within[id] = true;
        within.push_back(id);
      } else if (reads_full) {
        return std::nullopt;
      } else {
        stops = stops || node.op == Op::reduce || node.op == Op::concatenate || node.op == Op::dot;
      }
    }
    std::set<NodeId> inside;
    bool combines = false;
    for (auto id = within.rbegin(); id != within.rend(); ++id) {
      const Node& node = graph_.node(*id);
      const bool reduces_full = node.op == Op::reduce && is_full(node.operands[0].node, call.root);
      const auto feeds = [&](NodeId user) { return inside.contains(user); };
      const bool leads_back = *id != call.root && std::ranges::any_of(uses_[*id], feeds);
      if (!reduces_full && !is_full(*id, call.root) && !leads_back) continue;
      // A row's value that is repeated for somebody else.
      if (node.op == Op::broadcast && !leads_back) continue;
      combines = combines || reduces_full;
      inside.insert(*id);
    }
    const auto others = [&](NodeId id) {
      const bool own = id == call.root || std::ranges::count(call.epilogue, id) > 0;
      return !own && taken_.contains(id);
    };
    if (!combines || !stops || std::ranges::any_of(inside, others)) return std::nullopt;
    return inside;
  }

  /// Adds what nobody else needs of the product's size, element by element of something else (which column a label
  /// is): it would be stored for the call alone.
  void take_masks(NodeId root, std::set<NodeId>& inside) const {
    std::vector<NodeId> open(inside.begin(), inside.end());
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id == root) continue;
      for (const Value operand : graph_.node(id).operands) {
        const NodeId from = operand.node;
        const bool own = std::ranges::all_of(uses_[from], [&](NodeId user) { return inside.contains(user); });
        if (inside.contains(from) || taken_.contains(from) || results_[from] || !own) continue;
        if (!is_elementwise(graph_.node(from).op) || !is_full(from, root)) continue;
        inside.insert(from);
        open.push_back(from);
      }
    }
  }

  /// What the call reads of memory.
  void read(LibraryCall& call, const std::set<NodeId>& inside) const {
    call.viewed = graph_.node(call.root).operands;
    CallLeaves leaves(graph_, inside);
    for (const Value operand : call.viewed) {
      const Value source = values_.in_memory(operand);
      if (std::ranges::count(leaves.found, source) == 0) leaves.found.push_back(source);
    }
    for (const NodeId id : call.epilogue) {
      for (const Value operand : graph_.node(id).operands) leaves.add(operand);
    }
    call.operands = std::move(leaves.found);
  }

  [[nodiscard]] bool may_run(const LibraryCall& call, const std::set<NodeId>& inside) const {
    return std::ranges::none_of(call.operands, [&](Value operand) {
      return values_.is_within(operand) || inside.contains(operand.node) ||
             !nodes_between(graph_, call.root, operand.node).empty();
    });
  }

  [[nodiscard]] std::string describe_product(const LibraryCall& call) const {
    LibraryCall product = call;
    product.epilogue.clear();
    return describe_call(graph_, product);
  }

  const Graph& graph_;
  const CallValues values_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
  std::set<NodeId> taken_;  ///< what the calls compute
};

}  // namespace

bool has_row_results(const Graph& graph, const LibraryCall& call) {
  return std::ranges::any_of(call.epilogue, [&](NodeId id) { return graph.node(id).op == Op::reduce; }) &&
         std::ranges::none_of(call.epilogue, [&](NodeId id) { return graph.node(id).op == Op::dot; });
}

std::vector<LibraryCall> join_row_results(const Graph& graph, std::vector<LibraryCall> calls,
                                          const std::function<bool(const Graph&)>& wanted) {
  std::optional<RowJoiner> joiner(std::in_place, graph, calls);
  for (LibraryCall& call : calls) {
    const bool product = graph.node(call.root).op == Op::dot && call.further.empty() &&
                         std::ranges::none_of(call.epilogue, [&](NodeId id) { return graph.node(id).op == Op::dot; });
    if (!product) continue;
    std::optional<LibraryCall> joined = joiner->joined(call);
    if (!joined) continue;
    const Result<Graph> own = own_graph(graph, *joined);
    if (!own || !wanted(*own)) continue;
    call = *std::move(joined);
    joiner.emplace(graph, calls);  // what it computes is in no other call, and not in memory
  }
  return calls;
}

}  // namespace stitch::graph
