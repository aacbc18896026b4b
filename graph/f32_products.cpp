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
  if (asked.f32_arithmetic() == F32Arithmetic::f32) return asked;
  const F32Arithmetic way = has_f32_product(graph) ? asked.f32_arithmetic() : F32Arithmetic::f32;
  asked.tf32 = way == F32Arithmetic::tf32;
  asked.tf32x3 = way == F32Arithmetic::tf32x3;
  asked.bf16x3 = way == F32Arithmetic::bf16x3;
  return asked;
}

}  // namespace stitch::graph
