#include "kernel/structure/kernel_graph.h"

#include <algorithm>
#include <map>
#include <set>

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Whether an operator outside `asked` reads a value, directly or through attached operators.
bool is_read_outside(Value value, const std::set<NodeId>& asked, const std::vector<bool>& attached,
                     const FragmentUses& uses) {
  std::vector<NodeId> open;
  for (const FragmentUses::Use& use : uses.of(value.node)) {
    if (use.result == value.result) open.push_back(use.reader);
  }
  std::set<NodeId> seen;
  while (!open.empty()) {
    const NodeId reader = open.back();
    open.pop_back();
    if (asked.contains(reader) || !seen.insert(reader).second) continue;
    if (!attached[reader]) return true;
    for (const FragmentUses::Use& use : uses.of(reader)) open.push_back(use.reader);
  }
  return false;
}

}  // namespace

// Not a table: a packed kernel has hundreds of groups, and most of them load a few of its hundreds of parameters.
std::optional<int> parameter_number(const Graph& graph, NodeId node) {
  const auto all = graph.parameters();
  const auto found = std::find(all.begin(), all.end(), node);
  return found == all.end() ? std::nullopt : std::optional(static_cast<int>(found - all.begin()));
}

bool is_empty(const Node& node) {
  return std::all_of(node.results.begin(), node.results.end(), [](const auto& type) { return type.elements() == 0; });
}

std::int64_t least_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const NodeId parameter : graph.parameters()) bytes += graph.node(parameter).type().bytes();
  for (const Value result : graph.results()) bytes += graph.type(result).bytes();
  return bytes;
}

std::vector<bool> attached_operators(const Graph& fragment) {
  std::vector<bool> attached(fragment.size(), false);
  for (NodeId id = 0; id < fragment.size(); ++id) {
    const Node& node = fragment.node(id);
    if (node.op != Op::parameter && is_empty(node)) {
      attached[id] = true;
      continue;
    }
    switch (node.op) {
      case Op::constant:
      case Op::iota:
      case Op::broadcast:
      case Op::reshape: attached[id] = true; break;
      case Op::parameter: break;
      default: {
        // Arithmetic on constants alone, and on single elements of anything in memory.
        const bool moves = node.op == Op::slice || node.op == Op::transpose || graph::is_elementwise(node.op);
        const bool cheap = std::all_of(node.operands.begin(), node.operands.end(), [&](Value operand) {
          const bool scalar_parameter =
              fragment.node(operand.node).op == Op::parameter && fragment.type(operand).elements() == 1;
          return (attached[operand.node] && fragment.type(operand).elements() == 1) || scalar_parameter;
        });
        attached[id] = moves && cheap && node.type().elements() == 1;
      }
    }
  }
  return attached;
}

FragmentUses::FragmentUses(const Graph& fragment)
    : uses_(fragment.size()), results_(fragment.results().begin(), fragment.results().end()) {
  for (NodeId id = 0; id < fragment.size(); ++id) {
    for (const Value operand : fragment.node(id).operands) {
      uses_[operand.node].push_back({operand.result, id});
    }
  }
  std::ranges::sort(results_);
}

bool FragmentUses::is_result(Value value) const { return std::ranges::binary_search(results_, value); }

KernelGraph extract_kernel(const Graph& fragment, const std::vector<bool>& attached, const FragmentUses& uses,
                           const std::vector<NodeId>& members) {
  std::set<NodeId> own(members.begin(), members.end());
  std::vector<NodeId> open = members;
  std::set<Value> arguments;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (const Value operand : fragment.node(id).operands) {
      if (own.contains(operand.node)) continue;
      if (attached[operand.node]) {
        own.insert(operand.node);
        open.push_back(operand.node);
      } else {
        arguments.insert(operand);
      }
    }
  }
  KernelGraph kernel;
  kernel.graph.constraints = fragment.constraints;
  std::map<Value, Value> inside;
  for (const Value argument : arguments) {
    Node parameter;
    parameter.op = Op::parameter;
    parameter.attributes = graph::ParameterAttributes{fragment.type(argument)};
    parameter.results = {fragment.type(argument)};
    parameter.name = fragment.node(argument.node).name;
    inside[argument] = kernel.graph.add_unchecked(std::move(parameter));
    kernel.arguments.push_back(argument);
  }
  for (const NodeId id : own) {
    Node copy = fragment.node(id);
    for (Value& operand : copy.operands) operand = inside.at(operand);
    const std::int32_t results = copy.results.size();
    if (copy.op == Op::parameter) kernel.arguments.push_back({id, 0});  // a result that is copied
    const Value first = kernel.graph.add_unchecked(std::move(copy));
    for (std::int32_t r = 0; r < results; ++r) inside[{id, r}] = {first.node, r};
    kernel.nodes.push_back(id);
  }
  const std::set<NodeId> asked(members.begin(), members.end());
  std::vector<Value> leaving;
  for (const NodeId id : asked) {
    const std::int32_t results = fragment.node(id).results.size();
    for (std::int32_t r = 0; r < results; ++r) {
      if (uses.is_result({id, r}) || is_read_outside({id, r}, asked, attached, uses)) leaving.push_back({id, r});
    }
  }
  // An attached operator that is a result of the fragment belongs to the kernel of the members it reads.
  for (const Value value : leaving) {
    kernel.graph.add_result(inside.at(value));
    kernel.results.push_back(value);
  }
  return kernel;
}

}  // namespace stitch::kernel
