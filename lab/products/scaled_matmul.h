#pragma once

#include <string>

#include "graph/builder.h"

/// Products of narrow tensors with scales by blocks, as graphs say them (kernel/contraction/scaled_contraction.h).
namespace stitch::lab {

struct ScaledMatmul {
  std::string name;
  std::int64_t batch = 1, rows = 0, columns = 0, depth = 0;
  graph::DType left = graph::DType::f8e4m3, right = graph::DType::f8e4m3;
  bool by_parts = false;                        ///< a dot whose batch has the parts; else scaled operands
  std::int64_t part = 128, column_block = 128;  ///< of one scale
  graph::DType scaled = graph::DType::f32;      ///< in which operands are scaled, and the scales
  bool right_turned = false;                    ///< the right operand is [depth, columns]
  graph::DType result = graph::DType::f32;
  std::string epilogue = {};  ///< "bias", "norm"
};
inline void PrintTo(const ScaledMatmul& each, std::ostream* out) { *out << each.name; }

inline std::int64_t blocks_of(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

/// `scales` [batch, rows ÷ block, parts], one for each of [batch, rows, depth].
inline graph::Value repeated(graph::Builder& b, graph::Value scales, std::int64_t rows, std::int64_t depth,
                             std::int64_t block, std::int64_t part) {
  const graph::Dims few = b.dims(scales);
  const graph::Value all = b.broadcast(scales, {few[0], few[1], block, few[2], part}, {0, 1, 3});
  return b.slice(b.reshape(all, {few[0], few[1] * block, few[2] * part}), {0, 0, 0}, {few[0], rows, depth});
}

inline graph::Value product_of_operands(graph::Builder& b, const ScaledMatmul& m, graph::Value x, graph::Value sx,
                                        graph::Value w, graph::Value sw) {
  const auto scaled = [&](graph::Value narrow, graph::Value scales) {
    return b.binary(graph::Op::multiply, b.convert(narrow, m.scaled), scales);
  };
  graph::Value right_scales = repeated(b, sw, m.columns, m.depth, m.column_block, m.part);
  if (m.right_turned) right_scales = b.transpose(right_scales, {0, 2, 1});
  const graph::Value left = scaled(x, repeated(b, sx, m.rows, m.depth, 1, m.part)), right = scaled(w, right_scales);
  return b.dot(left, right, {{0}, {0}, {2}, {m.right_turned ? 1 : 2}, m.result});
}

inline graph::Value product_by_parts(graph::Builder& b, const ScaledMatmul& m, graph::Value x, graph::Value sx,
                                     graph::Value w, graph::Value sw) {
  const std::int64_t parts = m.depth / m.part;
  const graph::Value left = b.reshape(x, {m.batch, m.rows, parts, m.part});
  const graph::Value right = m.right_turned ? b.reshape(w, {m.batch, parts, m.part, m.columns})
                                            : b.reshape(w, {m.batch, m.columns, parts, m.part});
  const graph::DType sums = graph::is_floating(m.left) ? graph::DType::f32 : graph::DType::s32;
  const graph::Value dots = m.right_turned ? b.dot(left, right, {{0, 2}, {0, 1}, {3}, {2}, sums})
                                           : b.dot(left, right, {{0, 2}, {0, 2}, {3}, {3}, sums});
  const graph::Dims dims = b.dims(dots);  // batch, parts, rows, columns
  const std::int64_t blocks = blocks_of(m.columns, m.column_block);
  graph::Value of_columns = b.broadcast(sw, {m.batch, blocks, m.column_block, parts}, {0, 1, 3});
  of_columns = b.reshape(of_columns, {m.batch, blocks * m.column_block, parts});
  of_columns = b.slice(of_columns, {0, 0, 0}, {m.batch, m.columns, parts});
  const graph::Value of_rows = b.broadcast(b.transpose(sx, {0, 2, 1}), dims, {0, 1, 2});
  const graph::Value scaled =
      b.binary(graph::Op::multiply, b.binary(graph::Op::multiply, b.convert(dots, graph::DType::f32), of_rows),
               b.broadcast(b.transpose(of_columns, {0, 2, 1}), dims, {0, 1, 3}));
  return b.convert(b.reduce(graph::ReduceKind::sum, scaled, {1}), m.result);
}

/// Parameters: x, its scales, w, its scales, and what the epilogue reads.
inline std::vector<graph::Value> results_of(graph::Builder& b, const ScaledMatmul& m) {
  using graph::Dims;
  using graph::Op;
  using graph::Value;
  const std::int64_t parts = blocks_of(m.depth, m.part);
  const Value x = b.parameter(m.left, {m.batch, m.rows, m.depth});
  const Value sx = b.parameter(m.scaled, {m.batch, m.rows, parts});
  const Value w =
      b.parameter(m.right, m.right_turned ? Dims{m.batch, m.depth, m.columns} : Dims{m.batch, m.columns, m.depth});
  const Value sw = b.parameter(m.scaled, {m.batch, blocks_of(m.columns, m.column_block), parts});
  Value y = m.by_parts ? product_by_parts(b, m, x, sx, w, sw) : product_of_operands(b, m, x, sx, w, sw);
  const Dims dims = {m.batch, m.rows, m.columns};
  if (m.epilogue == "bias") {
    y = b.binary(Op::add, y, b.broadcast(b.parameter(m.result, {m.columns}), dims, {2}));
    y = b.binary(Op::maximum, y, b.filled(m.result, dims, 0));
  }
  if (m.epilogue == "norm") {
    const Value mean = b.binary(Op::multiply, b.reduce(graph::ReduceKind::sum, y, {2}),
                                b.filled(m.result, {m.batch, m.rows}, 1.0 / static_cast<double>(m.columns)));
    y = b.binary(Op::subtract, y, b.broadcast(mean, dims, {0, 1}));
  }
  return {y};
}

}  // namespace stitch::lab
