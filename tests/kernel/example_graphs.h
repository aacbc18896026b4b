#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "base/device_spec.h"
#include "graph/builder.h"
#include "graph/verify.h"
#include "kernel/program/traffic.h"
#include "search/partition/fusion_plan.h"
#include "search/schedule/scorer.h"

/// Small graphs of the kinds of kernel that models are made of, and a scorer whose numbers can be worked out by hand.
namespace stitch::kernel::test {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// The graph of a builder, which must be valid.
inline Graph finished(Builder& builder, std::vector<Value> results) {
  Result<Graph> graph = builder.finish(std::move(results));
  if (!graph) {
    throw std::runtime_error(graph.error().message);
  }
  if (const Status status = graph::verify(*graph); !status) {
    throw std::runtime_error(status.error().message);
  }
  return std::move(*graph);
}

/// A convolution of [images, height, width, features] with [height, width, features, results] into f32, without
/// padding, steps or holes.
inline graph::ConvolutionAttributes features_last() {
  graph::ConvolutionAttributes a;
  a.input_feature = a.output_feature = 3;
  a.input_spatial = a.output_spatial = {1, 2};
  a.kernel_spatial = {0, 1};
  a.kernel_input_feature = 2;
  a.kernel_output_feature = 3;
  a.strides = a.input_dilation = a.kernel_dilation = {1, 1};
  a.low = a.high = {0, 0};
  a.result = DType::f32;
  return a;
}

/// x[rows, depth] · w[depth, columns], the right one transposed in the graph if `turned`.
inline Graph matmul(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth, bool turned = false,
                    const std::string& name = "w") {
  Builder b;
  const Value x = b.parameter(dtype, {rows, depth}),
              w = b.parameter(dtype, turned ? Dims{columns, depth} : Dims{depth, columns}, name);
  const Value right = turned ? b.transpose(w, {1, 0}) : w;
  return finished(b, {b.dot(x, right, {{}, {}, {1}, {0}, DType::f32})});
}

/// 2 µs a launch and 3 TB/s of what the program reads and writes: the rough time of bench/models/README.md.
class RoughScorer final : public search::Scorer {
 public:
  [[nodiscard]] double predict_us(const Graph& graph, const KernelProgram& program) const override {
    return 2 + kernel::scheduled_bytes(graph, program) / 3e6;
  }
  [[nodiscard]] search::Score explain(const Graph& graph, const KernelProgram& program) const override {
    return {predict_us(graph, program), {}, {}};
  }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_ = *find_device("h100");
};

inline Graph softmax(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims);
  const Value top = b.broadcast(b.reduce(ReduceKind::max, x, {1}), dims, {0});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, top));
  return finished(b, {b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {1}), dims, {0}))});
}

/// (x - mean) · rsqrt(variance) · gain
inline Graph layer_norm(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims), gain = b.parameter(DType::f32, {columns});
  const Value share = b.filled(DType::f32, {rows}, 1.0 / columns);
  const Value mean = b.binary(Op::multiply, b.reduce(ReduceKind::sum, x, {1}), share);
  const Value centred = b.binary(Op::subtract, x, b.broadcast(mean, dims, {0}));
  const Value squares = b.binary(Op::multiply, centred, centred);
  const Value variance = b.binary(Op::multiply, b.reduce(ReduceKind::sum, squares, {1}), share);
  const Value scale = b.broadcast(b.unary(Op::rsqrt, variance), dims, {0});
  const Value normal = b.binary(Op::multiply, centred, scale);
  return finished(b, {b.binary(Op::multiply, normal, b.broadcast(gain, dims, {1}))});
}

/// Gradients of a norm whose normalised input and inverse deviation were kept: of the input, the gain and the bias.
inline Graph layer_norm_backward(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value normal = b.parameter(DType::f32, dims), upstream = b.parameter(DType::f32, dims);
  const Value gain = b.parameter(DType::f32, {columns}), deviation = b.parameter(DType::f32, {rows});
  const Value scaled = b.binary(Op::multiply, upstream, b.broadcast(gain, dims, {1}));
  const Value sum = b.reduce(ReduceKind::sum, scaled, {1});
  const Value product = b.reduce(ReduceKind::sum, b.binary(Op::multiply, scaled, normal), {1});
  const Value tilt = b.binary(Op::multiply, normal, b.broadcast(product, dims, {0}));
  const Value rest = b.binary(Op::subtract, b.binary(Op::subtract, scaled, b.broadcast(sum, dims, {0})), tilt);
  const Value gradient = b.binary(Op::multiply, rest, b.broadcast(deviation, dims, {0}));
  const Value of_gain = b.reduce(ReduceKind::sum, b.binary(Op::multiply, upstream, normal), {0});
  return finished(b, {gradient, of_gain, b.reduce(ReduceKind::sum, upstream, {0})});
}

inline Graph row_and_column_sums(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns});
  return finished(b, {b.reduce(ReduceKind::sum, x, {1}), b.reduce(ReduceKind::sum, x, {0})});
}

/// x ÷ its running sum along the rows.
inline Graph scanned(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::f32, {rows, columns});
  const Value sums = b.add(Op::scan, {x}, graph::ScanAttributes{ReduceKind::sum, 1, false, false});
  return finished(b, {b.binary(Op::divide, x, sums)});
}

inline graph::GatherAttributes row_gather(std::int64_t columns) {
  graph::GatherAttributes gather;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, columns};
  return gather;
}

inline graph::ScatterAttributes row_scatter(ReduceKind combiner = ReduceKind::sum) {
  graph::ScatterAttributes scatter;
  scatter.update_window_dims = {1};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  scatter.combiner = combiner;
  return scatter;
}

/// `count` rows combined into a table of `rows`.
inline Graph scattered(std::int64_t rows, std::int64_t columns, std::int64_t count, DType dtype = DType::f32,
                       ReduceKind combiner = ReduceKind::sum) {
  Builder b;
  const Value table = b.parameter(dtype, {rows, columns}), at = b.parameter(DType::s32, {count, 1});
  const Value updates = b.parameter(dtype, {count, columns});
  return finished(b, {b.add(Op::scatter, {table, at, updates}, row_scatter(combiner))});
}

/// One token written into a cache [batch, length, width] at a position.
inline Graph cache_update(std::int64_t batch, std::int64_t length, std::int64_t width, bool in_place) {
  Builder b;
  const Value cache = b.parameter(DType::f32, {batch, length, width});
  const Value token = b.parameter(DType::f32, {batch, 1, width}), at = b.parameter(DType::s32, {});
  const Value zero = b.scalar(DType::s32, 0);
  return finished(b, {b.add(Op::dynamic_update_slice, {cache, b.unary(Op::tanh, token), zero, at, zero},
                            graph::UpdateAttributes{in_place})});
}

}  // namespace stitch::kernel::test
