#include "graph/passes/layout_chains.h"

#include <algorithm>
#include <numeric>

#include "graph/infer_checks.h"
#include "graph/passes/dim_groups.h"
#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

// Reshaping a constant copies it; one with several users is copied only while small.
constexpr std::int64_t most_copied_elements = 4096;

/// reshape(broadcast(x)) as broadcast(reshape(x)): possible when no group of regrouped dimensions mixes mapped and
/// repeated ones. Extents of 1 come last, by a reshape: broadcasts have none.
Replacement reshape_of_broadcast(Rewriter& graph, Value broadcast, const Dims& result) {
  const Dims target = without_units(result);
  if (target == graph.dims(broadcast)) return {};
  const Dims& wide = graph.dims(broadcast);
  const Dims& mapping = graph.node(broadcast).as<BroadcastAttributes>().mapping;
  const auto groups = dim_groups(wide, target);
  if (!groups) return {};
  Dims operand_dims, new_mapping;
  for (const DimGroup& group : *groups) {
    int mapped = 0, repeated = 0;
    for (int d = group.from_begin; d < group.from_end; ++d) {
      if (wide[d] != 1) ++(contains(mapping, d) ? mapped : repeated);
    }
    if (mapped > 0 && repeated > 0) return {};
    for (int d = group.to_begin; d < group.to_end && mapped > 0; ++d) {
      operand_dims.push_back(target[d]);
      new_mapping.push_back(d);
    }
  }
  return graph.reshape(graph.broadcast(graph.reshape(graph.operand(broadcast), operand_dims), target, new_mapping),
                       result);
}

Replacement reshape(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const Dims& target = node.type().dims;
  if (graph.dims(x) == target) return x;
  if (graph.is(x, Op::reshape)) return graph.reshape(x, target);
  if (graph.is(x, Op::broadcast)) return reshape_of_broadcast(graph, x, target);
  if (graph.is(x, Op::constant) && (graph.uses(x) == 1 || element_count(target) <= most_copied_elements)) {
    ConstantAttributes constant = graph.node(x).as<ConstantAttributes>();
    constant.type.dims = target;
    return graph.constant(std::move(constant));
  }
  return {};
}

Replacement transpose_of_broadcast(Rewriter& graph, Value broadcast, const Dims& permutation, const Dims& target) {
  const Dims& mapping = graph.node(broadcast).as<BroadcastAttributes>().mapping;
  Dims new_mapping, operand_permutation;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto found = std::find(mapping.begin(), mapping.end(), permutation[i]);
    if (found == mapping.end()) continue;
    new_mapping.push_back(i);
    operand_permutation.push_back(found - mapping.begin());
  }
  return graph.broadcast(graph.transpose(graph.operand(broadcast), operand_permutation), target, new_mapping);
}

/// Whether the dimensions that have more than one element keep their order.
bool keeps_order(const Dims& permutation, const Dims& operand_dims) {
  std::int64_t last = -1;
  for (const std::int64_t d : permutation) {
    if (operand_dims[d] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

Replacement transpose(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const Dims& permutation = node.as<TransposeAttributes>().permutation;
  if (keeps_order(permutation, graph.dims(x))) return graph.reshape(x, node.type().dims);
  if (graph.is(x, Op::transpose)) return graph.transpose(x, permutation);
  if (graph.is(x, Op::broadcast)) return transpose_of_broadcast(graph, x, permutation, node.type().dims);
  return {};
}

Replacement broadcast(Rewriter& graph, const Node& node) {
  const Value x = node.operands[0];
  const auto& a = node.as<BroadcastAttributes>();
  if (graph.dims(x) == a.dims) return x;
  if (graph.is(x, Op::broadcast)) return graph.broadcast(x, a.dims, a.mapping);
  if (element_count(a.dims) == graph.type(x).elements() && element_count(a.dims) > 0) return graph.reshape(x, a.dims);
  return {};
}

Replacement iota(Rewriter& graph, const Node& node) {
  const auto& a = node.as<IotaAttributes>();
  if (a.type.rank() == 1) return {};
  const Dims length = {a.type.dims[a.dimension]};
  return graph.broadcast(graph.add(Op::iota, {}, IotaAttributes{{a.type.dtype, length}, 0}), a.type.dims,
                         {a.dimension});
}

Replacement layout_chains_rule(Rewriter& graph, const Node& node) {
  switch (node.op) {
    case Op::reshape: return reshape(graph, node);
    case Op::transpose: return transpose(graph, node);
    case Op::broadcast: return broadcast(graph, node);
    case Op::iota: return iota(graph, node);
    default: return {};
  }
}

}  // namespace

Result<int> merge_layout_chains(Graph& graph, const PassContext&) { return rewrite(graph, layout_chains_rule); }

}  // namespace stitch::graph
