#include "search/schedule/kernel_size.h"

#include "graph/op.h"

namespace stitch::search {
namespace {

/// Of an operator that moves or combines elements: an address, a load or a store, and what it does with them.
constexpr double instructions_of_other = 4;

double instructions_of(const graph::Node& node) {
  if (!graph::is_elementwise(node.op)) return instructions_of_other;
  const graph::InstructionCount& count = graph::info(node.op).instructions;
  return graph::byte_size(node.type().dtype) > 4 ? count.wide : count.narrow;
}

}  // namespace

double instructions_per_element(const graph::Graph& kernel) {
  double instructions = 0;
  for (const graph::Node& node : kernel.nodes()) {
    instructions += instructions_of(node);
    for (const auto& region : node.regions) instructions += instructions_per_element(*region);
  }
  return instructions;
}

}  // namespace stitch::search
