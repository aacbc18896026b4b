#include "search/kernel_graph.h"

#include <algorithm>
#include <map>
#include <set>

namespace stitch::search {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

}  // namespace

bool is_empty(const Node& node) {
  return std::all_of(node.results.begin(), node.results.end(), [](const auto& type) { return type.elements() == 0; });
}

std::vector<bool> attached_operators(const Graph& fragment) {
  std::vector<bool> attached(static_cast<std::size_t>(fragment.size()), false);
  for (NodeId id = 0; id < fragment.size(); ++id) {
    const Node& node = fragment.node(id);
    if (node.op != Op::parameter && is_empty(node)) {
      attached[static_cast<std::size_t>(id)] = true;
      continue;
    }
    switch (node.op) {
      case Op::constant:
      case Op::iota:
      case Op::broadcast:
      case Op::reshape: attached[static_cast<std::size_t>(id)] = true; break;
      case Op::parameter: break;
      default: {
        // Arithmetic on constants alone, and on single elements of anything in memory.
        const bool moves = node.op == Op::slice || node.op == Op::transpose || graph::is_elementwise(node.op);
        const bool cheap = std::all_of(node.operands.begin(), node.operands.end(), [&](Value operand) {
          const bool scalar_parameter =
              fragment.node(operand.node).op == Op::parameter && fragment.type(operand).elements() == 1;
          return (attached[static_cast<std::size_t>(operand.node)] && fragment.type(operand).elements() == 1) ||
                 scalar_parameter;
        });
        attached[static_cast<std::size_t>(id)] = moves && cheap && node.type().elements() == 1;
      }
    }
  }
  return attached;
}

KernelGraph extract_kernel(const Graph& fragment, const std::vector<bool>& attached,
                           const std::vector<NodeId>& members) {
  std::set<NodeId> own(members.begin(), members.end());
  std::vector<NodeId> open = members;
  std::set<Value> arguments;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (const Value operand : fragment.node(id).operands) {
      if (own.contains(operand.node)) continue;
      if (attached[static_cast<std::size_t>(operand.node)]) {
        own.insert(operand.node);
        open.push_back(operand.node);
      } else {
        arguments.insert(operand);
      }
    }
  }
  KernelGraph kernel;
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
    const auto results = static_cast<std::int32_t>(copy.results.size());
    if (copy.op == Op::parameter) kernel.arguments.push_back({id, 0});  // a result that is copied
    const Value first = kernel.graph.add_unchecked(std::move(copy));
    for (std::int32_t r = 0; r < results; ++r) inside[{id, r}] = {first.node, r};
    kernel.nodes.push_back(id);
  }
  // A member's value leaves the kernel when somebody outside needs it, directly or through attached operators.
  std::set<Value> leaving;
  const std::set<NodeId> asked(members.begin(), members.end());
  for (const Value result : fragment.results()) {
    if (asked.contains(result.node)) leaving.insert(result);
  }
  std::vector<std::set<Value>> behind(
      static_cast<std::size_t>(fragment.size()));  // members seen through attached operators
  for (NodeId id = 0; id < fragment.size(); ++id) {
    std::set<Value> sources;
    for (const Value operand : fragment.node(id).operands) {
      const auto at = static_cast<std::size_t>(operand.node);
      if (attached[at] && !asked.contains(operand.node)) {
        sources.insert(behind[at].begin(), behind[at].end());
      } else if (asked.contains(operand.node)) {
        sources.insert(operand);
      }
    }
    if (attached[static_cast<std::size_t>(id)] && !asked.contains(id)) {
      behind[static_cast<std::size_t>(id)] = std::move(sources);
    } else if (!asked.contains(id)) {
      leaving.insert(sources.begin(), sources.end());
    }
  }
  // An attached operator that is a result of the fragment belongs to the kernel of the members it reads.
  for (const Value value : leaving) {
    kernel.graph.add_result(inside.at(value));
    kernel.results.push_back(value);
  }
  return kernel;
}

}  // namespace stitch::search
