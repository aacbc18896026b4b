#pragma once

#include <cstdint>
#include <vector>

#include "graph/builder.h"

/// Products of groups of rows, each with a matrix of its own, as graphs say them (kernel/contraction/shown_depth.h).
namespace stitch::lab {

/// As JAX lowers ragged_dot: rows [rows, depth] and a matrix for each group, whose rows are from `begin` to `end`.
struct GroupedMatmul {
  std::int64_t rows = 0, depth = 0, columns = 0, groups = 0;
  graph::DType dtype = graph::DType::f32;
  bool gathered = false;  ///< rows are looked up among half as many
  bool scaled = false;    ///< results are multiplied with a number for each row, in the epilogue
  bool gradient = false;  ///< of the matrices: groups of what is contracted
  int products = 1;       ///< that share the rows
  bool batched = false;   ///< of a gradient: groups are a batch, with another tensor of dy for each
};

/// Whether a row, dimension 1 of `dims`, is a group's, dimension 0. Adds the parameters begin and end, s32[groups].
inline graph::Value is_of_group(graph::Builder& b, const graph::Dims& dims) {
  using graph::Comparison;
  const graph::Value begin = b.parameter(graph::DType::s32, {dims[0]}), end = b.parameter(graph::DType::s32, {dims[0]});
  const auto of_group = [&](graph::Value x) { return b.broadcast(x, dims, {0}); };
  const graph::Value row = b.iota(graph::DType::s32, dims, 1);
  return b.add(graph::Op::bit_and,
               {b.compare(Comparison::le, of_group(begin), row), b.compare(Comparison::lt, row, of_group(end))});
}

/// Parameters: begin, end, rows, their places among what is looked up, the matrices, numbers of rows.
inline std::vector<graph::Value> results_of(graph::Builder& b, const GroupedMatmul& m) {
  using graph::Value;
  const graph::Dims dims = {m.groups, m.rows, m.depth};
  const Value shown = is_of_group(b, dims);
  Value x = b.parameter(m.dtype, {m.gathered ? m.rows / 2 : m.rows, m.depth});
  if (m.gathered) {
    graph::GatherAttributes a;
    a.offset_dims = {1};
    a.collapsed_slice_dims = a.start_index_map = {0};
    a.index_vector_dim = 1;
    a.slice_sizes = {1, m.depth};
    x = b.add(graph::Op::gather, {x, b.parameter(graph::DType::s32, {m.rows})}, std::move(a));
  }
  const Value left = b.select(shown, b.broadcast(x, dims, {1, 2}), b.filled(m.dtype, dims, 0));
  std::vector<Value> results;
  for (int product = 0; product < m.products; ++product) {
    graph::DotAttributes a;
    a.result = graph::DType::f32;
    if (m.batched) {
      a.lhs_batch = a.rhs_batch = {0};
      a.lhs_contracting = a.rhs_contracting = {1};
      const Value dy = b.parameter(m.dtype, {m.rows, m.columns});
      results.push_back(b.dot(left, b.broadcast(dy, {m.groups, m.rows, m.columns}, {1, 2}), a));
      continue;
    }
    if (m.gradient) {
      a.lhs_contracting = {1};
      a.rhs_contracting = {0};
      results.push_back(b.dot(left, b.parameter(m.dtype, {m.rows, m.columns}), a));
      continue;
    }
    a.lhs_contracting = {2, 0};
    a.rhs_contracting = {1, 0};
    Value sum = b.dot(left, b.parameter(m.dtype, {m.groups, m.depth, m.columns}), a);
    if (m.scaled)
      sum = b.binary(graph::Op::multiply, sum,
                     b.broadcast(b.parameter(graph::DType::f32, {m.rows}), {m.rows, m.columns}, {0}));
    results.push_back(sum);
  }
  return results;
}

}  // namespace stitch::lab
