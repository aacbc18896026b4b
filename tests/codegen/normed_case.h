#pragma once

#include "tests/codegen/matmul_case.h"

/// Products whose rows are combined behind them, and schedules for them.
namespace stitch::codegen::test {

struct NormedMatmul {
  std::string name;
  Shape shape;
  DType dtype = DType::f16;
  /// "layer", "rms", "softmax", "narrow" (rms in the result's type), "turned"; results of rows alone: "statistics"
  /// (maximum, sum of exponentials, a label's), "greatest" (that only).
  std::string norm = "layer";
  DType result = DType::f32;
  bool residual = true;    ///< a residual stream is added first
  bool keeps_sum = false;  ///< what the norm is of is the first result
  Layout left = Layout::plain, right = Layout::plain;
  bool keeps_rows = false;  ///< what the mean's square is, of each row, is the first result
};

inline void PrintTo(const NormedMatmul& each, std::ostream* out) { *out << each.name; }

/// Of x[batch, rows, columns] each row by itself.
struct RowNorm {
  Builder& b;
  Dims dims;
  DType dtype;

  Value over(graph::ReduceKind kind, Value x) const { return b.reduce(kind, x, {2}); }
  Value spread(Value row) const { return b.broadcast(row, dims, {0, 1}); }
  Value number(double value, const Dims& of) const { return b.filled(dtype, of, value); }
  Value mean(Value x) const {
    return b.binary(Op::multiply, over(graph::ReduceKind::sum, x),
                    number(1.0 / static_cast<double>(dims[2]), {dims[0], dims[1]}));
  }
  Value inverse_root(Value mean) const {
    return b.unary(Op::rsqrt, b.binary(Op::add, mean, number(0.01, {dims[0], dims[1]})));
  }
  Value rms(Value x) const {
    const Value scale = inverse_root(mean(b.binary(Op::multiply, x, x)));
    const Value gamma = b.broadcast(b.parameter(dtype, {dims[2]}), dims, {2});
    return b.binary(Op::multiply, b.binary(Op::multiply, x, spread(scale)), gamma);
  }
  Value layer(Value x) const {
    const Value centred = b.binary(Op::subtract, x, spread(mean(x)));
    const Value beta = b.broadcast(b.parameter(dtype, {dims[2]}), dims, {2});
    return b.binary(Op::add, rms(centred), beta);
  }
  Value softmax(Value x) const {
    const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, spread(over(graph::ReduceKind::max, x))));
    return b.binary(Op::divide, e, spread(over(graph::ReduceKind::sum, e)));
  }
  /// What a cross entropy needs of its logits.
  std::vector<Value> statistics(Value x, bool greatest_alone) const {
    const Value most = over(graph::ReduceKind::max, x);
    if (greatest_alone) return {most};
    const Value label = b.parameter(DType::s32, {dims[0], dims[1]});
    const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, spread(most)));
    const Value own = b.compare(graph::Comparison::eq, b.iota(DType::s32, dims, 2), spread(label));
    return {most, over(graph::ReduceKind::sum, e), over(graph::ReduceKind::sum, b.select(own, x, number(0, dims)))};
  }
};

inline graph::Graph graph_of(const NormedMatmul& m) {
  const auto [batch, rows, columns, depth] = m.shape;
  const Dims dims = {batch, rows, columns};
  Builder b;
  const bool left_turned = m.left == Layout::turned, right_turned = m.right == Layout::turned;
  const Value left = b.parameter(m.dtype, left_turned ? Dims{batch, depth, rows} : Dims{batch, rows, depth});
  const Value right = b.parameter(m.dtype, right_turned ? Dims{batch, columns, depth} : Dims{batch, depth, columns});
  Value sum = b.dot(left, right, {{0}, {0}, {left_turned ? 1 : 2}, {right_turned ? 2 : 1}, DType::f32});
  if (m.norm == "narrow") sum = b.convert(sum, m.result);
  const DType computed = m.norm == "narrow" ? m.result : DType::f32;
  if (m.residual) sum = b.binary(Op::add, sum, b.parameter(computed, dims));
  const RowNorm norm{b, dims, computed};
  if (m.norm == "statistics" || m.norm == "greatest") return *b.finish(norm.statistics(sum, m.norm == "greatest"));
  Value result = m.norm == "layer" ? norm.layer(sum) : m.norm == "softmax" ? norm.softmax(sum) : norm.rms(sum);
  result = b.convert(result, m.result);
  if (m.norm == "turned") result = b.transpose(result, {0, 2, 1});
  std::vector<Value> results = {result};
  if (m.keeps_sum) results = {b.convert(sum, m.result), result};
  if (m.keeps_rows) {
    const Value mean = norm.mean(sum);
    results.insert(results.begin(), b.transpose(b.binary(Op::multiply, mean, mean), {1, 0}));
  }
  auto graph = b.finish(results);
  if (!graph) throw std::runtime_error(graph.error().message);
  return *std::move(graph);
}

inline kernel::ContractionProblem problem_of(const NormedMatmul& m) { return derived(graph_of(m)); }

}  // namespace stitch::codegen::test
