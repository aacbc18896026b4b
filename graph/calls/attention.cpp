#include "graph/calls/attention.h"

#include <algorithm>
#include <set>

#include "graph/fill.h"
#include "graph/strided_view.h"

namespace stitch::graph {
namespace {

/// The nearest dot that a value depends on through element-wise operators, layouts and reductions.
std::optional<NodeId> dot_before(const Graph& graph, Value value) {
  std::set<NodeId> open = {value.node};
  while (!open.empty()) {
    const NodeId id = *open.rbegin();
    open.erase(id);
    const Node& node = graph.node(id);
    if (node.op == Op::dot) return id;
    const OpCategory category = info(node.op).category;
    if (category == OpCategory::boundary || category == OpCategory::control) return std::nullopt;
    for (const Value operand : node.operands) open.insert(operand.node);
  }
  return std::nullopt;
}

/// Whether the node is its third operand with 0 for NaN.
bool replaces_nan(const Graph& graph, const Node& node) {
  if (node.op != Op::select) return false;
  const Node& asked = graph.node(node.operands[0].node);
  return asked.op == Op::is_nan && asked.operands[0] == node.operands[2] && fill_number(graph, node.operands[1]) == 0.0;
}

class Joiner {
 public:
  Joiner(const Graph& graph, std::vector<LibraryCall> calls, const std::function<bool(const Graph&)>& wanted)
      : graph_(graph),
        calls_(std::move(calls)),
        values_(graph, calls_),
        wanted_(wanted),
        uses_(users(graph)),
        results_(is_result(graph)) {}

  std::vector<LibraryCall> join() {
    std::set<NodeId> gone;  // dots of joined calls
    std::vector<LibraryCall> joined;
    for (const LibraryCall& call : calls_) {
      if (graph_.node(call.root).op != Op::dot) continue;
      const std::optional<Attention> found = match_attention(graph_, call.root);
      if (!found || gone.contains(found->scores)) continue;
      std::optional<LibraryCall> one = joined_call(*found, call);
      if (!one) continue;
      gone.insert({found->scores, found->product});
      joined.push_back(*std::move(one));
    }
    std::erase_if(calls_, [&](const LibraryCall& call) { return gone.contains(call.root); });
    std::ranges::move(joined, std::back_inserter(calls_));
    std::ranges::stable_sort(calls_, {}, &LibraryCall::root);
    return std::move(calls_);
  }

 private:
  std::optional<LibraryCall> joined_call(const Attention& attention, const LibraryCall& product) {
    std::optional<LibraryCall> call = call_of_attention(graph_, attention, product, values_);
    if (!call) return std::nullopt;
    std::set<NodeId> inside(call->epilogue.begin(), call->epilogue.end());
    inside.insert(call->root);
    if (is_needed_outside(inside, call->result.node, uses_, results_)) return std::nullopt;
    for (const Value operand : call->operands) {
      if (!nodes_between(graph_, call->root, operand.node).empty()) return std::nullopt;  // it would wait for itself
    }
    const Result<Graph> own = own_graph(graph_, *call);
    return own && wanted_(*own) ? std::move(call) : std::nullopt;
  }

  const Graph& graph_;
  std::vector<LibraryCall> calls_;
  const CallValues values_;
  const std::function<bool(const Graph&)>& wanted_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
};

}  // namespace

std::optional<LibraryCall> call_of_attention(const Graph& graph, const Attention& attention, const LibraryCall& product,
                                             const CallValues& values) {
  LibraryCall call;
  call.root = attention.scores;
  call.epilogue = attention.inner;
  call.epilogue.push_back(attention.product);
  call.epilogue.insert(call.epilogue.end(), product.epilogue.begin(), product.epilogue.end());
  call.result = product.result;
  const Node& scores = graph.node(attention.scores);
  call.viewed = {scores.operands[0], scores.operands[1], attention.values};
  std::set<NodeId> inside(call.epilogue.begin(), call.epilogue.end());
  inside.insert(call.root);
  CallLeaves leaves(graph, inside);
  for (const Value operand : call.viewed) {
    const Value read = values.in_memory(operand);
    if (std::ranges::count(leaves.found, read) == 0) leaves.found.push_back(read);
  }
  for (const NodeId id : call.epilogue) {
    for (const Value operand : graph.node(id).operands) {
      if (operand != attention.values) leaves.add(operand);
    }
  }
  call.operands = std::move(leaves.found);
  if (std::ranges::any_of(call.operands, [&](Value value) { return values.is_within(value); })) return std::nullopt;
  call.description = fmt::format("attention {}·{}, softmax, ·{}", to_string(graph.type(scores.operands[0])),
                                 to_string(graph.type(scores.operands[1])), to_string(graph.type(attention.values)));
  return call;
}

std::optional<Attention> match_attention(const Graph& graph, NodeId product) {
  if (graph.node(product).op != Op::dot) return std::nullopt;
  for (const int side : {0, 1}) {
    Attention found;
    found.product = product;
    found.values = graph.node(product).operands[1 - side];
    found.weights = view_of(graph, graph.node(product).operands[side]).source;
    Value quotient = found.weights;
    for (;;) {
      const Node& node = graph.node(quotient.node);
      if (node.op == Op::convert) {
        quotient = node.operands[0];
      } else if (replaces_nan(graph, node)) {
        found.nan_is_zero = true;
        quotient = node.operands[2];
      } else {
        break;
      }
    }
    const std::optional<Softmax> softmax = match_softmax(graph, quotient);
    if (!softmax) continue;
    found.softmax = *softmax;
    found.logits = softmax->sum.of;
    const std::optional<NodeId> scores = dot_before(graph, found.logits);
    if (!scores) continue;
    found.scores = *scores;
    for (const NodeId id : nodes_between(graph, *scores, product)) {
      if (id != *scores && id != product) found.inner.push_back(id);
    }
    return found;
  }
  return std::nullopt;
}

std::vector<LibraryCall> join_attentions(const Graph& graph, std::vector<LibraryCall> calls,
                                         const std::function<bool(const Graph&)>& wanted) {
  return Joiner(graph, std::move(calls), wanted).join();
}

}  // namespace stitch::graph
