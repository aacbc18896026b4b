#pragma once

#include "graph/calls/strided_convolution.h"

namespace stitch::library {

/// A tensor that lies in a parameter as it is: features behind images, or last.
inline graph::StridedConvolution::Tensor packed_tensor(int parameter, graph::DType dtype, const graph::Dims& extents,
                                                       bool features_last = false) {
  graph::StridedConvolution::Tensor tensor{parameter, dtype, 0, extents, graph::Dims(extents.size(), 1)};
  std::int64_t stride = features_last ? extents[1] : 1;
  for (std::size_t d = extents.size(); d-- > 2; stride *= extents[d]) tensor.strides[d] = stride;
  if (!features_last) tensor.strides[1] = stride;
  tensor.strides[0] = features_last ? stride : stride * extents[1];
  return tensor;
}

/// 3×3, padded by one: x [2, 8, 6, 6] and w [16, 8, 3, 3] to y [2, 16, 6, 6], or one of its gradients.
inline graph::StridedConvolution padded_convolution(
    graph::DType dtype, graph::StridedConvolution::Kind kind = graph::StridedConvolution::Kind::forward,
    bool features_last = false) {
  using Kind = graph::StridedConvolution::Kind;
  graph::StridedConvolution how;
  how.kind = kind;
  const int x = kind == Kind::backward_data ? -1 : 0, y = kind == Kind::forward         ? -1
                                                          : kind == Kind::backward_data ? 0
                                                                                        : 1;
  how.input = packed_tensor(x, dtype, {2, 8, 6, 6}, features_last);
  how.filter = packed_tensor(kind == Kind::backward_filter ? -1 : 1, dtype, {16, 8, 3, 3}, features_last);
  how.output = packed_tensor(y, dtype, {2, 16, 6, 6}, features_last);
  how.pre_padding = how.post_padding = how.strides = how.dilation = {1, 1};
  how.accumulation = dtype == graph::DType::f64 ? graph::DType::f64 : graph::DType::f32;
  return how;
}

}  // namespace stitch::library
