#pragma once

#include <string>

#include "graph/builder.h"

// Small fragments that are tuned in a moment.
namespace stitch::tuning::samples {

/// Rows of x shifted by their maximum, exponentiated and divided by their sum.
inline graph::Graph softmax(std::int64_t rows, std::int64_t columns) {
  graph::Builder builder("softmax");
  const graph::Value x = builder.parameter(graph::DType::f32, {rows, columns}, "x");
  const graph::Value top = builder.reduce(graph::ReduceKind::max, x, {1});
  const graph::Value power = builder.unary(
      graph::Op::exp, builder.binary(graph::Op::subtract, x, builder.broadcast(top, {rows, columns}, {0})));
  const graph::Value sum = builder.reduce(graph::ReduceKind::sum, power, {1});
  return *builder.finish({builder.binary(graph::Op::divide, power, builder.broadcast(sum, {rows, columns}, {0}))});
}

/// Layers of softmax and matrix product, each of another size: as many fragments.
inline graph::Graph layered_model(int layers) {
  graph::Builder builder("layers");
  std::int64_t width = 32;
  graph::Value x = builder.parameter(graph::DType::f32, {48, width}, "x");
  for (int layer = 0; layer < layers; ++layer) {
    const std::int64_t next = width + 8;
    const graph::Value weights = builder.parameter(graph::DType::f32, {width, next}, "w");
    const graph::Value top = builder.broadcast(builder.reduce(graph::ReduceKind::max, x, {1}), {48, width}, {0});
    const graph::Value power = builder.unary(graph::Op::exp, builder.binary(graph::Op::subtract, x, top));
    const graph::Value sum = builder.broadcast(builder.reduce(graph::ReduceKind::sum, power, {1}), {48, width}, {0});
    graph::DotAttributes contraction;
    contraction.lhs_contracting = {1};
    contraction.rhs_contracting = {0};
    x = builder.dot(builder.binary(graph::Op::divide, power, sum), weights, contraction);
    width = next;
  }
  return *builder.finish({x});
}

/// a·exp(b) − c and its sum; mirrored: the same with arguments and results in the opposite order.
inline graph::Graph scaled_difference(std::int64_t size, bool mirrored = false) {
  graph::Builder builder("scaled difference");
  graph::Value a, b, c;
  if (mirrored) {
    c = builder.parameter(graph::DType::f32, {size}, "c");
    b = builder.parameter(graph::DType::f32, {size}, "b");
    a = builder.parameter(graph::DType::f32, {size}, "a");
  } else {
    a = builder.parameter(graph::DType::f32, {size}, "a");
    b = builder.parameter(graph::DType::f32, {size}, "b");
    c = builder.parameter(graph::DType::f32, {size}, "c");
  }
  const graph::Value product = builder.binary(graph::Op::multiply, a, builder.unary(graph::Op::exp, b));
  const graph::Value difference = builder.binary(graph::Op::subtract, product, c);
  const graph::Value sum = builder.reduce(graph::ReduceKind::sum, difference, {0});
  if (mirrored) return *builder.finish({sum, difference});
  return *builder.finish({difference, sum});
}

}  // namespace stitch::tuning::samples
