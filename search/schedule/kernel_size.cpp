#include "search/schedule/kernel_size.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "graph/op.h"

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

/// Whether what reads a node's results is the same piece of code as the node.
bool connects(const graph::Node& node) {
  return node.op != graph::Op::parameter &&
         std::ranges::any_of(node.results, [](const graph::TensorType& type) { return type.elements() > 1; });
}

}  // namespace

double connected_instructions(const graph::Graph& kernel) {
  std::vector<graph::NodeId> root(kernel.nodes().size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](graph::NodeId node) {
    while (root[node] != node) node = root[node] = root[root[node]];
    return node;
  };
  for (graph::NodeId id = 0; id < kernel.size(); ++id) {
    for (const graph::Value operand : kernel.node(id).operands) {
      if (connects(kernel.node(operand.node))) root[find(operand.node)] = find(id);
    }
  }
  std::vector<double> together(root.size(), 0);
  for (graph::NodeId id = 0; id < kernel.size(); ++id) together[find(id)] += instructions_of(kernel.node(id));
  return together.empty() ? 0 : *std::ranges::max_element(together);
}

}  // namespace stitch::search
