#pragma once

#include <cstdint>
#include <vector>

#include "cuda/cudnn.h"
#include "graph/calls/strided_convolution.h"

namespace stitch::library {

/// A convolution and its epilogue as an operation graph of cuDNN's backend.
struct ConvolutionOperations {
  /// Memory that an execution is told of.
  struct Tensor {
    std::int64_t id = 0;      ///< unique in the graph
    int parameter = -1;       ///< of the call's graph; -1: its result, or as the description has it
    std::int64_t offset = 0;  ///< bytes
  };
  cuda::dnn::Descriptor graph;  ///< finalised
  std::vector<Tensor> tensors;
};

/// Describes a convolution that is not empty: the convolution or gradient, then, between virtual tensors of the type
/// that it is summed in, the addition of a tensor, of a bias, and ReLU: the order of cuDNN's fused engines ("Supported
/// Graph Patterns", ConvBiasAct). The scale is alpha of the first of the latter, or the convolution's where there is
/// none. `onto_result`: there is nothing else behind it than a tensor that is added, and it lies where the result will
/// (beta is 1). `handle`: null for a graph that nothing executes, which newer libraries allow. Errors: those of
/// cuda::dnn::Api::check.
Result<ConvolutionOperations> describe_operations(const cuda::dnn::Api& api, cuda::dnn::Handle handle,
                                                  const graph::StridedConvolution& convolution,
                                                  bool onto_result = false);

}  // namespace stitch::library
