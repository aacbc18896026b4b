#include "graph/passes/conditionals.h"

#include <algorithm>

#include "graph/canonical.h"
#include "graph/passes/regions.h"
#include "graph/passes/splat.h"

namespace stitch::graph {
namespace {

/// The branch that runs, if it is known.
const Graph* chosen(const Rewriter& graph, const Node& node) {
  const auto& branches = node.regions;
  if (const auto selector = splat_integer(graph, node.operands[0])) {
    if (graph.dtype(node.operands[0]) == DType::pred) return branches[*selector != 0 ? 0 : branches.size() - 1].get();
    const auto last = static_cast<std::int64_t>(branches.size()) - 1;
    return branches[*selector < 0 || *selector > last ? last : *selector].get();
  }
  const Hash128 key = region_key(*branches[0]);
  const bool equal =
      std::all_of(branches.begin() + 1, branches.end(), [&](const auto& branch) { return region_key(*branch) == key; });
  return equal ? branches[0].get() : nullptr;
}

/// Position of the parameter that every branch returns as result i.
std::optional<std::size_t> handed_through(const Node& node, std::size_t i) {
  std::optional<std::size_t> common;
  for (const auto& branch : node.regions) {
    const auto parameters = branch->parameters();
    const auto found = std::find(parameters.begin(), parameters.end(), branch->results()[i].node);
    if (found == parameters.end()) return std::nullopt;
    const std::size_t position = found - parameters.begin();
    if (common.value_or(position) != position) return std::nullopt;
    common = position;
  }
  return common;
}

std::shared_ptr<const Graph> narrowed(const Graph& branch, const std::vector<bool>& operands,
                                      const std::vector<bool>& results) {
  RegionCopy copy(branch);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const NodeId old = branch.parameters()[i];
    const TensorType& type = branch.node(old).type();
    if (operands[i]) copy.bind(old, copy.add_parameter(type, branch.node(old).name));
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const NodeId old = branch.parameters()[i];
    if (!operands[i]) copy.bind(old, copy.add_zeros(branch.node(old).type()));
  }
  std::vector<Value> kept;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i]) kept.push_back(branch.results()[i]);
  }
  return copy.finish(kept);
}

/// Operands (without the selector) on which a wanted result of some branch depends.
std::vector<bool> used_operands(const Node& node, const std::vector<bool>& wanted) {
  std::vector<bool> used(node.operands.size() - 1, false);
  for (const auto& branch : node.regions) {
    std::vector<bool> live(branch->size(), false);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) live[branch->results()[i].node] = true;
    }
    for (NodeId id = branch->size(); id-- > 0;) {
      if (!live[id]) continue;
      for (const Value& operand : branch->node(id).operands) live[operand.node] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || live[branch->parameters()[i]];
  }
  return used;
}

Replacement conditionals_rule(Rewriter& graph, const Node& node) {
  if (node.op != Op::conditional) return {};
  const std::span<const Value> arguments(node.operands.begin() + 1, node.operands.end());
  if (const Graph* branch = chosen(graph, node)) return inline_region(graph, *branch, arguments);
  std::vector<bool> wanted = graph.used_results(node);
  std::vector<std::optional<std::size_t>> through;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    through.push_back(handed_through(node, i));
    if (through[i]) wanted[i] = false;
  }
  const std::vector<bool> operands = used_operands(node, wanted);
  const auto all = [](const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), false) == flags.end();
  };
  if (all(wanted) && all(operands)) return {};
  const bool any = std::find(wanted.begin(), wanted.end(), true) != wanted.end();
  if (!any && std::find(through.begin(), through.end(), std::nullopt) != through.end()) return {};  // dead anyway
  Value made;
  if (any) {
    std::vector<Value> kept = {node.operands[0]};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i]) kept.push_back(arguments[i]);
    }
    std::vector<std::shared_ptr<const Graph>> branches;
    for (const auto& branch : node.regions) branches.push_back(narrowed(*branch, operands, wanted));
    made = graph.add(Op::conditional, kept, NoAttributes{}, branches);
  }
  std::vector<Value> results;
  std::int32_t next = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (through[i]) {
      results.push_back(arguments[*through[i]]);
    } else if (wanted[i]) {
      results.push_back({made.node, made.result + next++});
    } else {
      results.push_back(graph.filled(node.results[i], 0));  // nobody looks
    }
  }
  return results;
}

}  // namespace

Result<int> simplify_conditionals(Graph& graph, const PassContext&) { return rewrite(graph, conditionals_rule); }

}  // namespace stitch::graph
