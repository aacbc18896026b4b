#pragma once

#include "kernel/contraction/computed_operand.h"
#include "tests/codegen/matmul_case.h"

/// Products of operands that are computed while they are loaded.
namespace stitch::codegen::test {

struct ComputedMatmul {
  std::string name;
  Matmul matmul;          ///< `dtype` is what is multiplied
  DType source;           ///< of what the operand is made of
  std::string how = {};   ///< "convert", "scale", "derivative", "mask", "places", "dequantise", "norm",
                          ///< "other_way": a second tensor is transposed
  bool of_right = false;  ///< the right operand is computed; else the left one
  bool both = false;      ///< both are
};

inline void PrintTo(const ComputedMatmul& each, std::ostream* out) { *out << each.name; }

/// `depth`, `row`: the dimensions of [batch, row, depth] as the operand lies.
inline Value computed_of(Builder& b, const ComputedMatmul& m, const Dims& dims, std::int64_t row, std::int64_t depth) {
  const DType inner = graph::is_floating(m.source) ? m.source : DType::f32;
  const auto tensor = [&] { return b.parameter(m.source, dims); };
  const auto along = [&](std::int64_t dimension) {
    return b.broadcast(b.parameter(inner, {dims[dimension]}), dims, {dimension});
  };
  const auto of_row = [&] { return b.broadcast(b.parameter(inner, {dims[0], dims[row]}), dims, {0, row}); };
  Value x = tensor();
  if (m.how == "scale") x = b.add(Op::add, {b.add(Op::multiply, {x, along(depth)}), along(depth)});
  if (m.how == "dequantise") x = b.add(Op::multiply, {b.convert(x, inner), along(row)});
  if (m.how == "derivative") {  // of silu, by what is to be multiplied with it
    const Value g = b.unary(Op::logistic, tensor());
    x = b.add(Op::multiply, {x, b.add(Op::multiply, {g, b.add(Op::subtract, {b.filled(inner, dims, 1), g})})});
  }
  if (m.how == "mask") x = b.select(b.parameter(DType::pred, dims), x, b.filled(inner, dims, 0));
  if (m.how == "places") {
    const Value later =
        b.compare(graph::Comparison::gt, b.iota(DType::s32, dims, depth), b.iota(DType::s32, dims, row));
    x = b.select(later, b.filled(inner, dims, 0), x);
  }
  if (m.how == "norm") {
    const Value centred = b.add(Op::subtract, {x, of_row()});
    x = b.add(Op::add, {b.add(Op::multiply, {b.add(Op::multiply, {centred, of_row()}), along(depth)}), along(depth)});
  }
  if (m.how == "other_way")
    x = b.add(Op::add, {x, b.transpose(b.parameter(m.source, {dims[0], dims[2], dims[1]}), {0, 2, 1})});
  return b.convert(x, m.matmul.dtype);
}

inline graph::Graph graph_of(const ComputedMatmul& m) {
  const auto [batch, rows, columns, depth] = m.matmul.shape;
  const bool left_turned = m.matmul.left == Layout::turned, right_turned = m.matmul.right == Layout::turned;
  const Dims left_dims = left_turned ? Dims{batch, depth, rows} : Dims{batch, rows, depth};
  const Dims right_dims = right_turned ? Dims{batch, columns, depth} : Dims{batch, depth, columns};
  Builder b;
  const Value left = m.of_right && !m.both ? b.parameter(m.matmul.dtype, left_dims)
                                           : computed_of(b, m, left_dims, left_turned ? 2 : 1, left_turned ? 1 : 2);
  const Value right = m.of_right || m.both ? computed_of(b, m, right_dims, right_turned ? 1 : 2, right_turned ? 2 : 1)
                                           : b.parameter(m.matmul.dtype, right_dims);
  graph::DotAttributes a;
  a.lhs_batch = a.rhs_batch = {0};
  a.lhs_contracting = {left_turned ? 1 : 2};
  a.rhs_contracting = {right_turned ? 2 : 1};
  a.result = m.matmul.result;
  auto graph = b.finish({with_epilogue(b, m.matmul, b.dot(left, right, a))});
  if (!graph) throw std::runtime_error(graph.error().message);
  graph->constraints = m.matmul.constraints;
  return *std::move(graph);
}

inline kernel::ContractionProblem problem_of(const ComputedMatmul& m) {
  auto problem = kernel::derive_computed(graph_of(m));
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

}  // namespace stitch::codegen::test
