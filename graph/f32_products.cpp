#include "graph/f32_products.h"

#include <algorithm>

namespace stitch::graph {
namespace {

using Asked = bool (*)(const Graph& graph, const Node& node);

/// Whether the graph, or a region in it, has such a node.
bool has(const Graph& graph, Asked asked) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return asked(graph, node) ||
           std::ranges::any_of(node.regions, [&](const auto& region) { return has(*region, asked); });
  });
}

bool is_f32_by_winograd(const Graph& graph, const Node& node) {
  return is_f32_product(graph, node) && has_winograd_form(graph, node);
}

}  // namespace

bool is_f32_product(const Graph& graph, const Node& node) {
  if (node.op != Op::dot && node.op != Op::convolution) return false;
  return node.type().dtype == DType::f32 && graph.type(node.operands[0]).dtype == DType::f32 &&
         graph.type(node.operands[1]).dtype == DType::f32;
}

bool has_winograd_form(const Graph& graph, const Node& node) {
  if (node.op != Op::convolution) return false;
  const auto& a = node.as<ConvolutionAttributes>();
  const TensorType &x = graph.type(node.operands[0]), &w = graph.type(node.operands[1]), &y = node.type();
  const bool floats = y.dtype == DType::f32 || y.dtype == DType::f64;
  if (!floats || x.dtype != y.dtype || w.dtype != y.dtype || a.input_spatial.size() != 2) return false;
  if (x.elements() == 0 || w.elements() == 0 || y.elements() == 0) return false;
  const auto one = [](std::int64_t each) { return each == 1; };
  return a.feature_groups == 1 && a.batch_groups == 1 && std::ranges::all_of(a.strides, one) &&
         std::ranges::all_of(a.input_dilation, one) && std::ranges::all_of(a.kernel_dilation, one) &&
         std::ranges::all_of(a.kernel_spatial, [&](std::int64_t d) { return w.dims[d] == 3; });
}

bool by_winograd(const Constraints& constraints) {
  return constraints.winograd && !constraints.batch_invariant && !constraints.eager_precision &&
         constraints.f32_arithmetic() == F32Arithmetic::f32;
}

Constraints relevant_constraints(const Graph& graph) {
  Constraints asked = graph.constraints;
  asked.winograd = by_winograd(asked) && has(graph, is_f32_by_winograd);
  if (asked.f32_arithmetic() == F32Arithmetic::f32) return asked;
  const F32Arithmetic way = has(graph, is_f32_product) ? asked.f32_arithmetic() : F32Arithmetic::f32;
  asked.tf32 = way == F32Arithmetic::tf32;
  asked.tf32x3 = way == F32Arithmetic::tf32x3;
  asked.bf16x3 = way == F32Arithmetic::bf16x3;
  return asked;
}

}  // namespace stitch::graph
