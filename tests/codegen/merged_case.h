#pragma once

#include "kernel/contraction/merged_contraction.h"
#include "tests/codegen/matmul_case.h"

/// Several products of one operand, and schedules for them.
namespace stitch::codegen::test {

/// One of them: what it has of its own.
struct Side {
  std::int64_t columns;
  Layout layout = Layout::plain;  ///< plain: [depth, columns]
  DType result = DType::f32;
  std::string epilogue = {};  ///< those of Matmul, and "heads"
};

struct MergedMatmuls {
  std::string name;
  std::int64_t batch, rows, depth;
  DType dtype = DType::f16;
  Layout shared = Layout::plain;  ///< plain: [rows, depth]
  std::vector<Side> sides = {};
  bool shares_right = false;  ///< what is shared is each dot's second operand
  graph::Constraints constraints = {};
};

inline void PrintTo(const MergedMatmuls& each, std::ostream* out) { *out << each.name; }

inline Value product_of_side(Builder& b, const MergedMatmuls& m, const Side& side, Value shared) {
  const bool side_turned = side.layout == Layout::turned, shared_turned = m.shared == Layout::turned;
  const Value own =
      b.parameter(m.dtype, side_turned ? Dims{m.batch, side.columns, m.depth} : Dims{m.batch, m.depth, side.columns});
  const std::int64_t own_depth = side_turned ? 2 : 1, shared_depth = shared_turned ? 1 : 2;
  Matmul one{"", {m.batch, m.rows, side.columns, m.depth}, m.dtype, {}, {}, side.result, side.epilogue};
  if (m.shares_right) std::swap(one.shape.rows, one.shape.columns);
  const Value sum = m.shares_right ? b.dot(own, shared, {{0}, {0}, {own_depth}, {shared_depth}, side.result})
                                   : b.dot(shared, own, {{0}, {0}, {shared_depth}, {own_depth}, side.result});
  if (side.epilogue != "heads") return with_epilogue(b, one, sum);
  const Value split = b.reshape(sum, {m.batch, one.shape.rows, 2, one.shape.columns / 2});
  return b.transpose(split, {0, 2, 1, 3});
}

inline graph::Graph graph_of(const MergedMatmuls& m) {
  Builder b;
  const bool shared_turned = m.shared == Layout::turned;
  const Value shared =
      b.parameter(m.dtype, shared_turned ? Dims{m.batch, m.depth, m.rows} : Dims{m.batch, m.rows, m.depth});
  std::vector<Value> results;
  for (const Side& side : m.sides) results.push_back(product_of_side(b, m, side, shared));
  auto graph = b.finish(results);
  if (!graph) throw std::runtime_error(graph.error().message);
  graph->constraints = m.constraints;
  return *std::move(graph);
}

inline kernel::ContractionProblem problem_of(const MergedMatmuls& m) {
  auto problem = kernel::derive_merged(graph_of(m));
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

}  // namespace stitch::codegen::test
