#include "lab/breadth/shrinker.h"

#include <optional>

#include "base/random.h"

namespace stitch::lab {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// What stands in the place of a value.
using Replacement = std::map<Value, Value>;

/// The part of a graph that leads to `results`. Nodes among `cut` become parameters, values among `replaced` others;
/// parameters that nothing needs any more are dropped.
Graph part_of(const Graph& graph, const std::vector<Value>& results, NodeId cut, const Replacement& replaced) {
  const auto source = [&](Value value) {
    const auto found = replaced.find(value);
    return found == replaced.end() ? value : found->second;
  };
  std::vector<bool> needed(static_cast<std::size_t>(graph.size()), false);
  for (const Value value : results) needed[static_cast<std::size_t>(source(value).node)] = true;
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (!needed[static_cast<std::size_t>(id)] || id == cut) continue;
    for (const Value operand : graph.node(id).operands) needed[static_cast<std::size_t>(source(operand).node)] = true;
  }
  Graph part;
  std::map<Value, Value> inside;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!needed[static_cast<std::size_t>(id)]) continue;
    const Node& node = graph.node(id);
    const auto count = static_cast<std::int32_t>(node.results.size());
    if (id == cut) {
      for (std::int32_t r = 0; r < count; ++r) {
        const auto added = part.add(Op::parameter, {}, graph::ParameterAttributes{node.type(r)});
        if (added) inside[{id, r}] = *added;
      }
      continue;
    }
    Node copy = node;
    for (Value& operand : copy.operands) operand = inside.at(source(operand));
    const Value first = part.add_unchecked(std::move(copy));
    for (std::int32_t r = 0; r < count; ++r) inside[{id, r}] = {first.node, r};
  }
  for (const Value value : results) part.add_result(inside.at(source(value)));
  return part;
}

std::vector<Value> results_of(const Graph& graph) { return {graph.results().begin(), graph.results().end()}; }

bool is_source(const Node& node) { return node.operands.empty(); }

/// Whether the case, with any of some seeds, has a fault of this class; which, if so.
std::optional<ShrunkCase> still_wrong(const CaseCheck& check, const BreadthCase& like, const Graph& graph,
                                      const std::string& fault) {
  constexpr int seeds = 12;
  std::vector<BreadthCase> cases;
  for (int i = 0; i < seeds; ++i)
    cases.push_back({graph, like.device, i == 0 ? like.seed : random_at(like.seed, static_cast<std::uint64_t>(i))});
  const std::vector<CaseVerdict> verdicts = check(cases);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].outcome == CaseVerdict::Outcome::wrong && fault_class(verdicts[i]) == fault)
      return ShrunkCase{std::move(cases[i]), verdicts[i]};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Graph> smaller_graphs(const Graph& graph) {
  std::vector<Graph> graphs;
  const std::vector<Value> results = results_of(graph);
  if (results.size() > 1) {
    for (const Value value : results) graphs.push_back(part_of(graph, {value}, -1, {}));
    for (std::size_t i = 0; i < results.size(); ++i) {
      std::vector<Value> fewer = results;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      graphs.push_back(part_of(graph, fewer, -1, {}));
    }
  }
  // Operands of the results instead of the results.
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (const Value operand : graph.node(results[i].node).operands) {
      if (is_source(graph.node(operand.node))) continue;
      std::vector<Value> other = results;
      other[i] = operand;
      graphs.push_back(part_of(graph, other, -1, {}));
    }
  }
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    if (is_source(node)) continue;
    for (const Value operand : node.operands) {
      if (graph.type(operand) == node.type()) graphs.push_back(part_of(graph, results, -1, {{{id, 0}, operand}}));
    }
    graphs.push_back(part_of(graph, results, id, {}));
  }
  return graphs;
}

ShrunkCase shrink(const CaseCheck& check, const BreadthCase& wrong, const std::stop_token& stop) {
  ShrunkCase best{wrong, check({&wrong, 1}).front()};
  if (best.verdict.outcome != CaseVerdict::Outcome::wrong) return best;
  const std::string fault = fault_class(best.verdict);
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Graph& graph : smaller_graphs(best.smallest.graph)) {
      if (stop.stop_requested()) return best;
      std::optional<ShrunkCase> found = still_wrong(check, best.smallest, graph, fault);
      if (!found) continue;
      const int steps = best.steps + 1;
      best = std::move(*found);
      best.steps = steps;
      smaller = true;
      break;
    }
  }
  return best;
}

}  // namespace stitch::lab
