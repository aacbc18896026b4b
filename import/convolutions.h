#pragma once

#include "graph/builder.h"

/// Convolutions of tensors N C spatial… with weights M C/groups spatial…, as ONNX and PyTorch have them, and what
/// differentiates them: all of them the one operator of the graph (the XLA operation semantics of
/// ConvWithGeneralPadding).
namespace stitch::import {

/// The window of a convolution or pooling over the spatial dimensions, one entry each.
struct Window {
  graph::Dims sizes, strides, dilations, low, high;

  /// The extent that the window covers.
  [[nodiscard]] std::int64_t span(std::size_t d) const { return (sizes[d] - 1) * dilations[d] + 1; }
};

/// x[N, C, …] * weights[M, C/groups, …], in x's type.
graph::Value convolution(graph::Builder& b, graph::Value x, graph::Value weights, const Window& window,
                         std::int64_t groups);

/// x[N, M, …] * weights[M, C/groups, …] → [N, C, …]: the gradient of a convolution's input, x dilated by the strides
/// and the kernel reversed. `padding`: of the result at its ends, besides what windows reach, which may be negative.
graph::Value transposed_convolution(graph::Builder& b, graph::Value x, graph::Value weights, const Window& window,
                                    const graph::Dims& padding, std::int64_t groups);

/// The gradient of a convolution's weights [M, C/groups, window.sizes…], of its input x[N, C, …] and the gradient of
/// its result [N, M, …]: every place of the window is a product of the two, summed over the batch.
graph::Value convolution_of_weights(graph::Builder& b, graph::Value x, graph::Value gradient, const Window& window,
                                    std::int64_t groups);

/// A bias [C] added to y[N, C, …].
graph::Value with_bias(graph::Builder& b, graph::Value y, graph::Value bias);

}  // namespace stitch::import
