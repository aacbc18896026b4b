#include "search/schedule/kernel_size.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "graph/op.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::search {
namespace {

/// Of an operator that moves or combines elements: an address, a load or a store, and what it does with them.
constexpr double instructions_of_other = 4;

double instructions_of(const graph::Node& node) {
  if (node.op == graph::Op::parameter || node.op == graph::Op::constant) return 0;
  double instructions = instructions_of_other;
  if (graph::is_elementwise(node.op)) {
    const graph::InstructionCount& count = graph::info(node.op).instructions;
    instructions = graph::byte_size(node.type().dtype) > 4 ? count.wide : count.narrow;
  }
  for (const auto& region : node.regions) {
    for (const graph::Node& inner : region->nodes()) instructions += instructions_of(inner);
  }
  return instructions;
}

/// Of each node whether what reads it is the same piece of code. What is spread of a parameter or of a single number
/// belongs to each reader by itself.
std::vector<bool> connecting(const graph::Graph& kernel) {
  const std::vector<bool> attached = kernel::attached_operators(kernel);
  std::vector<bool> connects(kernel.nodes().size(), false);
  for (graph::NodeId id = 0; id < kernel.size(); ++id) {
    const graph::Node& node = kernel.node(id);
    if (node.op == graph::Op::parameter) continue;
    const auto is_array = [](const graph::TensorType& type) { return type.elements() > 1; };
    connects[id] = attached[id] ? std::ranges::any_of(node.operands, [&](graph::Value v) { return connects[v.node]; })
                                : std::ranges::any_of(node.results, is_array);
  }
  return connects;
}

}  // namespace

double connected_instructions(const graph::Graph& kernel) {
  std::vector<graph::NodeId> root(kernel.nodes().size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](graph::NodeId node) {
    while (root[node] != node) node = root[node] = root[root[node]];
    return node;
  };
  const std::vector<bool> connects = connecting(kernel);
  for (graph::NodeId id = 0; id < kernel.size(); ++id) {
    for (const graph::Value operand : kernel.node(id).operands) {
      if (connects[operand.node]) root[find(operand.node)] = find(id);
    }
  }
  std::vector<double> together(root.size(), 0);
  for (graph::NodeId id = 0; id < kernel.size(); ++id) together[find(id)] += instructions_of(kernel.node(id));
  return together.empty() ? 0 : *std::ranges::max_element(together);
}

}  // namespace stitch::search
