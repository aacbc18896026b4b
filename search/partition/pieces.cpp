#include "search/partition/pieces.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace stitch::search {
namespace {

using graph::NodeId;
using graph::Value;

/// The operator that an attached one belongs to: what it reads, through others that are attached; nothing where that is
/// constants and parameters alone.
std::optional<NodeId> owner_of(const graph::Graph& fragment, const std::vector<bool>& attached, NodeId id) {
  std::optional<NodeId> owner;
  for (const Value operand : fragment.node(id).operands) {
    std::optional<NodeId> read = operand.node;
    if (fragment.node(*read).op == graph::Op::parameter) continue;
    if (attached[*read]) read = owner_of(fragment, attached, *read);
    owner = std::max(owner, read);
  }
  return owner;
}

bool is_result(const graph::Graph& fragment, const kernel::FragmentUses& uses, NodeId id) {
  const std::int32_t results = std::ssize(fragment.node(id).results);
  for (std::int32_t r = 0; r < results; ++r) {
    if (uses.is_result({id, r})) return true;
  }
  return false;
}

/// The operators that can be kernels, `most` to a piece in their order. What is attached is only among them where it is
/// a result: with the operator that it reads, as in any kernel.
std::vector<std::vector<NodeId>> members_of_pieces(const graph::Graph& fragment, const std::vector<bool>& attached,
                                                   const kernel::FragmentUses& uses, int most) {
  std::vector<std::vector<NodeId>> pieces(1);
  std::vector<std::size_t> piece_of(fragment.nodes().size(), 0);
  int count = 0;
  for (NodeId id = 0; id < fragment.size(); ++id) {
    if (attached[id] || fragment.node(id).op == graph::Op::parameter) continue;
    if (count++ == most) {
      pieces.emplace_back();
      count = 1;
    }
    piece_of[id] = pieces.size() - 1;
    pieces.back().push_back(id);
  }
  for (NodeId id = 0; id < fragment.size(); ++id) {
    const bool belongs = attached[id] || fragment.node(id).op == graph::Op::parameter;
    if (!belongs || !is_result(fragment, uses, id)) continue;
    const std::optional<NodeId> owner = owner_of(fragment, attached, id);
    pieces[owner ? piece_of[*owner] : 0].push_back(id);
  }
  return pieces;
}

}  // namespace

int operators_of(const graph::Graph& fragment) {
  return static_cast<int>(
      std::ranges::count_if(fragment.nodes(), [](const graph::Node& node) { return node.op != graph::Op::parameter; }));
}

std::vector<kernel::KernelGraph> cut_in_pieces(const graph::Graph& fragment, int most) {
  const std::vector<bool> attached = kernel::attached_operators(fragment);
  const kernel::FragmentUses uses(fragment);
  std::vector<kernel::KernelGraph> pieces;
  for (const std::vector<NodeId>& members : members_of_pieces(fragment, attached, uses, most)) {
    pieces.push_back(kernel::extract_kernel(fragment, attached, uses, members));
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
  // Its first kernel stands behind those that are there.
  if (!whole.kernels.empty() && !plan.kernels.empty()) whole.predicted_us -= plan.dependent_saving_us;
  whole.dependent_saving_us = plan.dependent_saving_us;
  for (PlannedKernel& kernel : plan.kernels) {
    for (Value& argument : kernel.arguments) argument = value_of(argument);
    for (Value& result : kernel.results) result = value_of(result);
    for (NodeId& node : kernel.nodes) node = node_of(node);
    whole.kernels.push_back(std::move(kernel));
  }
  whole.predicted_us += plan.predicted_us;
}

}  // namespace stitch::search
