#pragma once

#include "graph/builder.h"

/// Small graphs of the kinds of kernel that models are made of.
namespace stitch::profiler::test {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// 3·x + y
inline Result<Graph> scaled_sum(const Dims& dims, DType dtype = DType::f32) {
  Builder b;
  const Value x = b.parameter(dtype, dims), y = b.parameter(dtype, dims);
  return b.finish({b.binary(Op::add, b.binary(Op::multiply, x, b.filled(dtype, dims, 3)), y)});
}

inline Result<Graph> softmax(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims);
  const Value top = b.broadcast(b.reduce(ReduceKind::max, x, {1}), dims, {0});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, top));
  return b.finish({b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {1}), dims, {0}))});
}

/// Sums over the rows and, for every row, over the columns, of x·y: what a norm's backward pass takes.
inline Result<Graph> norm_backward(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims), y = b.parameter(DType::f32, dims);
  const Value product = b.binary(Op::multiply, x, y);
  const Value row = b.reduce(ReduceKind::sum, product, {1});
  const Value gradient = b.binary(Op::subtract, x, b.broadcast(row, dims, {0}));
  return b.finish({gradient, b.reduce(ReduceKind::sum, product, {0}), b.reduce(ReduceKind::sum, y, {0})});
}

/// Reduction of [a,b,c] over its first and last dimension.
inline Result<Graph> channel_reduction(ReduceKind kind, const Dims& dims, DType dtype = DType::f32) {
  Builder b;
  return b.finish({b.reduce(kind, b.parameter(dtype, dims), {0, 2})});
}

/// A vector divided by its norm.
inline Result<Graph> divided_by_norm(std::int64_t elements) {
  Builder b;
  const Value x = b.parameter(DType::f32, {elements});
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {0});
  return b.finish({b.binary(Op::divide, x, b.broadcast(b.unary(Op::sqrt, sum), {elements}, {}))});
}

/// The product of two vectors divided by its norm; one of them has wide elements, the other narrow ones.
inline Result<Graph> divided_products(std::int64_t elements) {
  Builder b;
  const Value x = b.parameter(DType::f64, {elements});
  const Value y = b.convert(b.parameter(DType::s8, {elements}), DType::f64);
  const Value product = b.binary(Op::multiply, x, y);
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, product, product), {0});
  return b.finish({b.binary(Op::divide, product, b.broadcast(b.unary(Op::sqrt, sum), {elements}, {}))});
}

/// A matrix less its columns' means, divided by the columns' mean deviations.
inline Result<Graph> centred_columns(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims);
  const Value share = b.filled(DType::f32, {columns}, 1.0 / static_cast<double>(rows));
  const auto mean = [&](Value of) {
    return b.broadcast(b.binary(Op::multiply, b.reduce(ReduceKind::sum, of, {0}), share), dims, {1});
  };
  const Value centred = b.binary(Op::subtract, x, mean(x));
  return b.finish({b.binary(Op::divide, centred, mean(b.unary(Op::abs, centred)))});
}

/// Every channel less its mean, over its mean distance from that: dimension 1 of three.
inline Result<Graph> centred_channels(const Dims& dims, DType dtype = DType::f32) {
  Builder b;
  const Value x = b.convert(b.parameter(dtype, dims), DType::f32);
  const Value share = b.filled(DType::f32, {dims[1]}, 1.0 / static_cast<double>(dims[0] * dims[2]));
  const auto mean = [&](Value of) {
    return b.broadcast(b.binary(Op::multiply, b.reduce(ReduceKind::sum, of, {0, 2}), share), dims, {1});
  };
  const Value centred = b.binary(Op::subtract, x, mean(x));
  return b.finish({b.binary(Op::divide, centred, mean(b.unary(Op::abs, centred)))});
}

/// The same with two numbers a channel as results beside it, which small groups of their own store.
inline Result<Graph> centred_channels_and_squares(const Dims& dims) {
  Builder b;
  const Value x = b.parameter(DType::f32, dims), g = b.parameter(DType::f32, {dims[1]});
  const Value h = b.parameter(DType::f32, {dims[1]});
  const Value sums = b.reduce(ReduceKind::sum, x, {0, 2});
  const Value centred = b.binary(Op::subtract, x, b.broadcast(sums, dims, {1}));
  const Value scaled = b.binary(Op::multiply, centred, b.broadcast(g, dims, {1}));
  return b.finish(
      {b.binary(Op::add, scaled, b.broadcast(h, dims, {1})), b.binary(Op::multiply, g, g), b.binary(Op::add, h, h)});
}

/// x times the sums of its columns with y, and y times those of its own: what a norm's backward does with its two
/// tensors.
inline Result<Graph> weighted_columns(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims), y = b.parameter(DType::f32, dims);
  const Value share = b.filled(DType::f32, {columns}, 1.0 / static_cast<double>(rows));
  const auto mean = [&](Value of) {
    return b.broadcast(b.binary(Op::multiply, b.reduce(ReduceKind::sum, of, {0}), share), dims, {1});
  };
  return b.finish({b.binary(Op::add, b.binary(Op::multiply, x, mean(b.binary(Op::multiply, x, y))),
                            b.binary(Op::multiply, y, mean(y)))});
}

/// A matrix divided by the sum of its rows' norms.
inline Result<Graph> divided_by_norms(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns});
  const Value norms = b.unary(Op::sqrt, b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1}));
  const Value sum = b.reduce(ReduceKind::sum, norms, {0});
  return b.finish({b.binary(Op::divide, x, b.broadcast(sum, {rows, columns}, {}))});
}

/// A matrix less its rows' means, divided by the norm of all of that.
inline Result<Graph> centred_rows(std::int64_t rows, std::int64_t columns, DType dtype = DType::f32) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.convert(b.parameter(dtype, dims), DType::f32);
  const Value sums = b.reduce(ReduceKind::sum, x, {1});
  const Value mean = b.binary(Op::multiply, sums, b.filled(DType::f32, {rows}, 1.0 / static_cast<double>(columns)));
  const Value centred = b.binary(Op::subtract, x, b.broadcast(mean, dims, {0}));
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, centred, centred), {0, 1});
  return b.finish({b.binary(Op::divide, centred, b.broadcast(b.unary(Op::sqrt, sum), dims, {}))});
}

/// x divided by its running sum: the second phase reads what the first stored.
inline Result<Graph> scanned(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns});
  const Value sums = b.add(Op::scan, {b.unary(Op::abs, x)}, graph::ScanAttributes{ReduceKind::sum, 1, false, false});
  return b.finish({b.binary(Op::divide, x, sums)});
}

/// Running sums of a matrix's shares in its sum.
inline Result<Graph> scanned_share(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.unary(Op::abs, b.parameter(DType::f32, dims));
  const Value sum = b.broadcast(b.reduce(ReduceKind::sum, x, {0, 1}), dims, {});
  const Value share = b.binary(Op::divide, x, sum);
  return b.finish({b.add(Op::scan, {share}, graph::ScanAttributes{ReduceKind::sum, 1, false, false})});
}

inline Result<Graph> transposed(const Dims& dims, const Dims& permutation, DType dtype = DType::f32) {
  Builder b;
  return b.finish({b.unary(Op::negate, b.transpose(b.parameter(dtype, dims), permutation))});
}

/// Neighbouring elements as complex numbers, turned by an angle each: rotary embedding as GPT-J has it.
inline Result<Graph> rotated_pairs(std::int64_t rows, std::int64_t pairs) {
  Builder b;
  const Dims dims = {rows, pairs, 1};
  const Value x = b.parameter(DType::f32, {rows, 2 * pairs}), angle = b.parameter(DType::f32, {rows, pairs, 1});
  const Value real = b.reshape(b.slice(x, {0, 0}, {rows, 2 * pairs - 1}, {1, 2}), dims);
  const Value imaginary = b.reshape(b.slice(x, {0, 1}, {rows, 2 * pairs}, {1, 2}), dims);
  const Value cosine = b.unary(Op::cos, angle), sine = b.unary(Op::sin, angle);
  const auto product = [&](Value a, Value c) { return b.binary(Op::multiply, a, c); };
  const Value turned_real = b.binary(Op::subtract, product(real, cosine), product(imaginary, sine));
  const Value turned_imaginary = b.binary(Op::add, product(real, sine), product(imaginary, cosine));
  return b.finish({b.concatenate({turned_real, turned_imaginary}, 2)});
}

/// Rows of a table, by index.
inline Result<Graph> looked_up(std::int64_t rows, std::int64_t columns, std::int64_t count) {
  Builder b;
  const Value table = b.parameter(DType::f32, {rows, columns}), index = b.parameter(DType::s32, {count, 1});
  graph::GatherAttributes gather;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, columns};
  return b.finish({b.unary(Op::tanh, b.add(Op::gather, {table, index}, gather))});
}

/// Element [i, index[i]] of a matrix: an index vector put together from a counter and a parameter.
inline Result<Graph> picked(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns}), label = b.parameter(DType::s32, {rows, 1});
  const Value index = b.concatenate({b.iota(DType::s32, {rows, 1}, 0), label}, 1);
  graph::GatherAttributes gather;
  gather.collapsed_slice_dims = {0, 1};
  gather.start_index_map = {0, 1};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, 1};
  return b.finish({b.unary(Op::negate, b.add(Op::gather, {x, index}, gather))});
}

/// Rows added to a table where the indices say.
inline Result<Graph> scattered(std::int64_t rows, std::int64_t columns, std::int64_t count) {
  Builder b;
  const Value table = b.parameter(DType::f32, {rows, columns}), index = b.parameter(DType::s32, {count, 1});
  const Value updates = b.parameter(DType::f32, {count, columns});
  graph::ScatterAttributes scatter;
  scatter.update_window_dims = {1};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  return b.finish({b.add(Op::scatter, {table, index, updates}, scatter)});
}

/// Independent kernels side by side: `count` vectors of different lengths, each doubled, with row sums in between.
inline Result<Graph> packed(int count) {
  Builder b;
  std::vector<Value> results;
  for (int i = 0; i < count; ++i) {
    const Dims dims = {4000 + 4 * i};
    const Value x = b.parameter(DType::f32, dims);
    results.push_back(b.binary(Op::add, x, x));
    if (i % 2 == 0) results.push_back(b.reduce(ReduceKind::sum, b.parameter(DType::f32, {64, 300}), {1}));
  }
  return b.finish(std::move(results));
}

}  // namespace stitch::profiler::test
