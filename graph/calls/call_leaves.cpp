#include "graph/calls/call_leaves.h"

#include <algorithm>

#include "graph/strided_view.h"
#include "graph/subgraph.h"

namespace stitch::graph {
namespace {

bool only_moves(Op op) { return op == Op::broadcast || op == Op::reshape || op == Op::transpose; }
/// Random numbers are drawn for parts of a tensor, and put together.
bool only_places(Op op) { return only_moves(op) || op == Op::slice || op == Op::concatenate; }

/// A key's words and a seed are computed wherever they are used; what has more elements is in memory.
constexpr std::int64_t few_elements = 4;
/// Elements for each of what is read for them.
constexpr std::int64_t little = 16;
/// Random numbers as JAX writes them out have some sixty operators.
constexpr std::size_t most_leaves = 4, most_behind_leaves = 96;

}  // namespace

std::set<NodeId> nodes_between(const Graph& graph, NodeId root, NodeId end) {
  std::set<NodeId> depends = {root};
  for (NodeId id = root + 1; id <= end; ++id) {
    const auto& operands = graph.node(id).operands;
    if (std::ranges::any_of(operands, [&](Value operand) { return depends.contains(operand.node); }))
      depends.insert(id);
  }
  if (!depends.contains(end)) return {};
  std::set<NodeId> leading = {end};
  for (auto id = depends.rbegin(); id != depends.rend(); ++id) {
    if (!leading.contains(*id)) continue;
    for (const Value operand : graph.node(*id).operands) {
      if (depends.contains(operand.node)) leading.insert(operand.node);
    }
  }
  return leading;
}

bool is_needed_outside(const std::set<NodeId>& inside, NodeId end, const std::vector<std::vector<NodeId>>& uses,
                       const std::vector<bool>& results) {
  return std::ranges::any_of(inside, [&](NodeId id) {
    if (id == end) return false;
    const bool all_inside = std::ranges::all_of(uses[id], [&](NodeId user) { return inside.contains(user); });
    return results[id] || !all_inside;
  });
}

std::string describe_call(const Graph& graph, const LibraryCall& call) {
  const Node& root = graph.node(call.root);
  std::string text = fmt::format("{} {}·{}", to_string(root.op), to_string(graph.type(root.operands[0])),
                                 to_string(graph.type(root.operands[1])));
  for (const NodeId id : call.epilogue) text += fmt::format(", {}", to_string(graph.node(id).op));
  return text;
}

Result<Graph> own_graph(const Graph& graph, const LibraryCall& call) {
  std::vector<Value> operands;
  for (const Value operand : call.operands) {
    if (std::ranges::count(operands, operand) == 0) operands.push_back(operand);
  }
  return subgraph(graph, operands, call.results());
}

CallValues::CallValues(const Graph& graph, std::span<const LibraryCall> calls)
    : graph_(graph), within_(graph.size(), false) {
  for (const LibraryCall& call : calls) {
    within_[call.root] = true;
    for (const NodeId id : call.epilogue) within_[id] = true;
    for (const Value value : call.results()) written_.insert(value);
  }
}

Value CallValues::in_memory(Value operand) const {
  const Value source = view_of(graph_, operand).source;
  while (operand != source && !written_.contains(operand)) operand = graph_.node(operand.node).operands[0];
  return operand;
}

void CallLeaves::add(Value value) {
  while (!inside_.contains(value.node) && !is_of_nothing(value.node)) {
    const Node& node = graph_.node(value.node);
    if (!only_moves(node.op)) {
      const std::vector<Value> made_of = little_behind(value);
      for (const Value leaf : made_of) {
        if (std::ranges::count(found, leaf) == 0) found.push_back(leaf);
      }
      if (!made_of.empty()) return;
      if (std::ranges::count(found, value) == 0) found.push_back(value);
      return;
    }
    value = node.operands[0];
  }
}

std::vector<Value> CallLeaves::little_behind(Value value) const {
  const std::int64_t most = graph_.type(value).elements() / little;
  if (!of_little_) return {};
  std::vector<Value> open = {value}, leaves;
  std::set<NodeId> seen;
  while (!open.empty()) {
    const Value each = open.back();
    open.pop_back();
    const Node& node = graph_.node(each.node);
    const std::int64_t elements = graph_.type(each).elements();
    if (inside_.contains(each.node) || seen.size() > most_behind_leaves) return {};
    if (node.op == Op::iota || (node.op == Op::constant && elements == 1)) continue;
    const bool computed = is_elementwise(node.op), small = elements <= most;
    // Of a scalar key others are drawn once.
    const bool is_leaf = small && (elements > few_elements ? node.op != Op::convert : makes_random_bits(node.op));
    const bool goes_on = only_places(node.op) || (computed && !is_leaf);
    if (goes_on) {
      if (seen.insert(each.node).second) open.insert(open.end(), node.operands.begin(), node.operands.end());
      continue;
    }
    if (!small) return {};
    if (std::ranges::count(leaves, each) == 0) leaves.push_back(each);
  }
  return leaves.size() <= most_leaves ? leaves : std::vector<Value>{};
}

bool CallLeaves::is_of_nothing(NodeId start) const {
  std::vector<NodeId> open = {start};
  std::set<NodeId> seen;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    constexpr std::size_t most_operators = 32;
    const Node& node = graph_.node(id);
    const bool begins = node.op == Op::iota || (node.op == Op::constant && graph_.type({id}).elements() == 1);
    if (seen.size() > most_operators || !(only_moves(node.op) || begins || is_elementwise(node.op))) return false;
    for (const Value operand : node.operands) open.push_back(operand.node);
  }
  return true;
}

}  // namespace stitch::graph
