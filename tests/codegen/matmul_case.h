#pragma once

#include <string>

#include "graph/builder.h"
#include "tests/codegen/contraction_case.h"

/// Matrix products by shape, types, layouts and epilogue, and schedules of wgmma for them.
namespace stitch::codegen::test {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;

struct Shape {
  std::int64_t batch, rows, columns, depth;
};

/// How an operand lies in memory: as its rows × depth, or the other way round.
enum class Layout : std::uint8_t { plain, turned };

struct Matmul {
  std::string name;
  Shape shape;
  DType dtype = DType::f16;
  Layout left = Layout::plain, right = Layout::plain;  ///< right, plain: [depth, columns]
  DType result = DType::f32;
  std::string epilogue = {};  ///< "bias", "gelu", "residual", "turned"
  graph::Constraints constraints = {};
};

inline void PrintTo(const Matmul& matmul, std::ostream* out) { *out << matmul.name; }

inline graph::Value with_epilogue(Builder& b, const Matmul& m, Value sum) {
  const Dims dims = {m.shape.batch, m.shape.rows, m.shape.columns};
  const DType dtype = m.result;
  if (m.epilogue == "bias") {
    const Value bias = b.parameter(dtype, {m.shape.columns});
    return b.add(Op::maximum, {b.add(Op::add, {sum, b.broadcast(bias, dims, {2})}), b.filled(dtype, dims, 0)});
  }
  if (m.epilogue == "gelu") return b.add(Op::multiply, {sum, b.unary(Op::tanh, sum)});
  if (m.epilogue == "residual")
    return b.add(Op::add, {b.add(Op::multiply, {sum, b.filled(dtype, dims, 0.5)}), b.parameter(dtype, dims)});
  if (m.epilogue == "turned") return b.transpose(sum, {0, 2, 1});
  if (m.epilogue == "narrow") return b.convert(sum, DType::bf16);
  return sum;
}

inline Result<graph::Graph> graph_of(const Matmul& m) {
  const auto [batch, rows, columns, depth] = m.shape;
  Builder b;
  const bool left_turned = m.left == Layout::turned, right_turned = m.right == Layout::turned;
  const Value left = b.parameter(m.dtype, left_turned ? Dims{batch, depth, rows} : Dims{batch, rows, depth});
  const Value right = b.parameter(m.dtype, right_turned ? Dims{batch, columns, depth} : Dims{batch, depth, columns});
  graph::DotAttributes a;
  a.lhs_batch = a.rhs_batch = {0};
  a.lhs_contracting = {left_turned ? 1 : 2};
  a.rhs_contracting = {right_turned ? 2 : 1};
  a.result = m.result;
  auto graph = b.finish({with_epilogue(b, m, b.dot(left, right, a))});
  if (graph) graph->constraints = m.constraints;
  return graph;
}

inline kernel::ContractionProblem problem_of(const Matmul& m) { return derived(graph_of(m)); }

constexpr auto plain = Layout::plain, turned = Layout::turned;

struct Warpgroups {
  std::string name;
  Matmul matmul;
  int block_rows, block_columns, block_depth, warp_rows, warp_columns, stages = 4, split = 1;
};
inline void PrintTo(const Warpgroups& each, std::ostream* out) { *out << each.name; }

inline kernel::ContractionSchedule schedule_of(const kernel::ContractionProblem& problem, const Warpgroups& w) {
  kernel::ContractionSchedule s;
  s.instruction = kernel::warpgroup_instruction_for(problem, *find_device("h100")).value();
  s.block_rows = w.block_rows;
  s.block_columns = w.block_columns;
  s.block_depth = w.block_depth;
  s.warp_rows = w.warp_rows;
  s.warp_columns = w.warp_columns;
  s.thread_rows = s.thread_columns = 0;
  s.stages = w.stages;
  s.split = w.split;
  s.group = 2;
  fit_accesses(problem, s);
  return s;
}

}  // namespace stitch::codegen::test
