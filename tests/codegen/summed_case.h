#pragma once

#include "kernel/contraction/summed_contraction.h"
#include "tests/codegen/matmul_case.h"

/// Sums of products, and what is behind them.
namespace stitch::codegen::test {

/// One of them: what it has of its own.
struct Term {
  std::int64_t depth;
  bool across = false;  ///< its left operand has the sum's columns, and its result is transposed
};

struct SummedMatmuls {
  std::string name;
  std::int64_t batch, rows, columns;
  DType dtype = DType::f16;
  Layout left = Layout::plain, right = Layout::plain;  ///< of all terms; right, plain: [depth, columns]
  std::vector<Term> terms = {};
  DType result = DType::f32;
  std::string epilogue = {};  ///< those of Matmul, "norm", and "before": something is added to the first one
  graph::Constraints constraints = {};
};

inline void PrintTo(const SummedMatmuls& each, std::ostream* out) { *out << each.name; }

inline Value term_of(Builder& b, const SummedMatmuls& m, const Term& term) {
  const bool left_turned = m.left == Layout::turned, right_turned = m.right == Layout::turned;
  const Value left =
      b.parameter(m.dtype, left_turned ? Dims{m.batch, term.depth, m.rows} : Dims{m.batch, m.rows, term.depth});
  const Value right =
      b.parameter(m.dtype, right_turned ? Dims{m.batch, m.columns, term.depth} : Dims{m.batch, term.depth, m.columns});
  const std::int64_t left_depth = left_turned ? 1 : 2, right_depth = right_turned ? 2 : 1;
  if (!term.across) return b.dot(left, right, {{0}, {0}, {left_depth}, {right_depth}, m.result});
  return b.transpose(b.dot(right, left, {{0}, {0}, {right_depth}, {left_depth}, m.result}), {0, 2, 1});
}

inline graph::Graph graph_of(const SummedMatmuls& m) {
  Builder b;
  const Dims dims = {m.batch, m.rows, m.columns};
  std::optional<Value> sum;
  if (m.epilogue == "before") sum = b.parameter(m.result, dims);
  for (const Term& term : m.terms) {
    const Value value = term_of(b, m, term);
    sum = sum ? b.add(Op::add, {*sum, value}) : value;
  }
  Value result = *sum;
  if (m.epilogue == "norm") {
    const Value total = b.reduce(graph::ReduceKind::sum, b.add(Op::multiply, {result, result}), {2});
    result = b.add(Op::multiply, {result, b.broadcast(b.unary(Op::rsqrt, total), dims, {0, 1})});
  } else if (m.epilogue != "before") {
    result = with_epilogue(b, {"", {m.batch, m.rows, m.columns, 0}, m.dtype, {}, {}, m.result, m.epilogue}, result);
  }
  auto graph = b.finish({result});
  if (!graph) throw std::runtime_error(graph.error().message);
  graph->constraints = m.constraints;
  return *std::move(graph);
}

inline kernel::ContractionProblem problem_of(const SummedMatmuls& m) {
  auto problem = kernel::derive_summed(graph_of(m));
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

}  // namespace stitch::codegen::test
