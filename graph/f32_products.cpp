#include "graph/f32_products.h"

#include <algorithm>

namespace stitch::graph {
namespace {

bool has_f32_product(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return is_f32_product(graph, node) ||
           std::ranges::any_of(node.regions, [](const auto& region) { return has_f32_product(*region); });
  });
}

}  // namespace

bool is_f32_product(const Graph& graph, const Node& node) {
  if (node.op != Op::dot && node.op != Op::convolution) return false;
  return node.type().dtype == DType::f32 && graph.type(node.operands[0]).dtype == DType::f32 &&
         graph.type(node.operands[1]).dtype == DType::f32;
}

Constraints relevant_constraints(const Graph& graph) {
  Constraints asked = graph.constraints;
  if (asked.tf32_products() == 0) return asked;
  const bool any = has_f32_product(graph);
  asked.tf32x3 = any && !asked.tf32;
  asked.tf32 = any && asked.tf32;
  return asked;
}

}  // namespace stitch::graph
