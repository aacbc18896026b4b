#include "import/convolutions.h"

#include "import/emit.h"

namespace stitch::import {

using graph::Builder;
using graph::Dims;
using graph::Op;
using graph::Value;
namespace {

graph::ConvolutionAttributes attributes_of(const Window& w, std::int64_t groups, graph::DType result) {
  graph::ConvolutionAttributes a;
  for (std::size_t d = 0; d < w.sizes.size(); ++d) a.input_spatial.push_back(static_cast<std::int64_t>(d) + 2);
  a.kernel_spatial = a.output_spatial = a.input_spatial;
  a.strides = w.strides;
  a.low = w.low;
  a.high = w.high;
  a.input_dilation.assign(w.sizes.size(), 1);
  a.kernel_dilation = w.dilations;
  a.window_reversal.assign(w.sizes.size(), false);
  a.feature_groups = groups;
  a.result = result;
  return a;
}

/// Weights M C/g spatial as M/g C spatial: the groups' outputs side by side.
Value regrouped(Builder& b, Value weights, std::int64_t groups) {
  if (groups == 1) return weights;
  const Dims dims = b.dims(weights);
  Dims split{groups, dims[0] / groups, dims[1]}, order{1, 0, 2}, joined{dims[0] / groups, groups * dims[1]};
  for (std::size_t d = 2; d < dims.size(); ++d) {
    split.push_back(dims[d]);
    order.push_back(static_cast<std::int64_t>(d) + 1);
    joined.push_back(dims[d]);
  }
  return b.reshape(b.transpose(b.reshape(weights, split), order), joined);
}

}  // namespace

Value convolution(Builder& b, Value x, Value weights, const Window& window, std::int64_t groups) {
  return b.add(Op::convolution, {x, weights}, attributes_of(window, groups, b.dtype(x)));
}

Value transposed_convolution(Builder& b, Value x, Value weights, const Window& window, const Dims& padding,
                             std::int64_t groups) {
  graph::ConvolutionAttributes a = attributes_of(window, groups, b.dtype(x));
  const std::size_t count = window.sizes.size();
  a.input_dilation = window.strides;
  a.strides.assign(count, 1);
  a.window_reversal.assign(count, true);
  a.kernel_input_feature = 0;
  a.kernel_output_feature = 1;
  for (std::size_t d = 0; d < count; ++d) {
    a.low[d] = window.span(d) - 1 - window.low[d];
    a.high[d] = window.span(d) - 1 - window.high[d] + padding[d];
  }
  return b.add(Op::convolution, {x, regrouped(b, weights, groups)}, std::move(a));
}

Value convolution_of_weights(Builder& b, Value x, Value gradient, const Window& window, std::int64_t groups) {
  graph::ConvolutionAttributes a = attributes_of(window, 1, b.dtype(x));
  // The batch is what is summed; x's features are the result's "batch", one group of them for each of the gradient's.
  a.input_batch = a.output_batch = 1;
  a.input_feature = a.output_feature = 0;
  a.kernel_input_feature = 0;
  a.kernel_output_feature = 1;
  a.batch_groups = groups;
  a.strides = window.dilations;
  a.kernel_dilation = window.strides;
  for (std::size_t d = 0; d < window.sizes.size(); ++d) {
    const std::int64_t reach = (b.dims(gradient)[d + 2] - 1) * window.strides[d] + window.span(d);
    a.high[d] = reach - b.dims(x)[d + 2] - window.low[d];  // what no window reached has no part in it
  }
  return b.add(Op::convolution, {x, gradient}, std::move(a));
}

Value with_bias(Builder& b, Value y, Value bias) { return b.binary(Op::add, y, b.broadcast(bias, b.dims(y), {1})); }

}  // namespace stitch::import
