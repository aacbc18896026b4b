#include "search/partition/pieces.h"

#include <algorithm>
#include <utility>

namespace stitch::search {
namespace {

using graph::NodeId;
using graph::Value;

/// The operators that can be kernels: neither parameters nor those that belong to whoever reads them.
std::vector<NodeId> kernel_operators(const graph::Graph& fragment, const std::vector<bool>& attached,
                                     const kernel::FragmentUses& uses) {
  std::vector<NodeId> operators;
  for (NodeId id = 0; id < std::ssize(fragment.nodes()); ++id) {
    const graph::Node& node = fragment.node(id);
    bool is_result = false;
    for (std::int32_t r = 0; r < std::ssize(node.results); ++r) is_result = is_result || uses.is_result({id, r});
    if (is_result || (!attached[id] && node.op != graph::Op::parameter)) operators.push_back(id);
  }
  return operators;
}

}  // namespace

int operators_of(const graph::Graph& fragment) {
  return static_cast<int>(
      std::ranges::count_if(fragment.nodes(), [](const graph::Node& node) { return node.op != graph::Op::parameter; }));
}

std::vector<kernel::KernelGraph> cut_in_pieces(const graph::Graph& fragment, int most) {
  const std::vector<bool> attached = kernel::attached_operators(fragment);
  const kernel::FragmentUses uses(fragment);
  const std::vector<NodeId> operators = kernel_operators(fragment, attached, uses);
  std::vector<kernel::KernelGraph> pieces;
  for (std::size_t first = 0; first < operators.size(); first += most) {
    const std::size_t last = std::min(operators.size(), first + most);
    pieces.push_back(kernel::extract_kernel(fragment, attached, uses,
                                            {operators.begin() + static_cast<std::ptrdiff_t>(first),
                                             operators.begin() + static_cast<std::ptrdiff_t>(last)}));
  }
  return pieces;
}

void append_plan(const kernel::KernelGraph& piece, FusionPlan plan, FusionPlan& whole) {
  // A piece's graph has its parameters first, then the operators in the order in which it names them.
  const NodeId parameters = static_cast<NodeId>(std::ssize(piece.graph.nodes()) - std::ssize(piece.nodes));
  const auto node_of = [&](NodeId inside) { return piece.nodes[inside - parameters]; };
  const auto value_of = [&](Value inside) {
    return inside.node < parameters ? piece.arguments[inside.node] : Value{node_of(inside.node), inside.result};
  };
  for (PlannedKernel& kernel : plan.kernels) {
    for (Value& argument : kernel.arguments) argument = value_of(argument);
    for (Value& result : kernel.results) result = value_of(result);
    for (NodeId& node : kernel.nodes) node = node_of(node);
    whole.kernels.push_back(std::move(kernel));
  }
  whole.predicted_us += plan.predicted_us;
}

}  // namespace stitch::search
