#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "graph/calls/index_steps.h"
#include "graph/graph.h"

namespace stitch::graph {

/// What a library's call does behind its dot or convolution, whose index space is walked row-major:
///
///     result = activation(scale · product + addend + bias)
struct CallEpilogue {
  /// Memory, and how the call steps through it while it walks the space; a stride of 0 repeats elements.
  struct Tensor {
    int parameter = -1;  ///< of the call's graph; -1: its result
    DType dtype = DType::f32;
    std::int64_t offset = 0;  ///< elements
    Digits walk;              ///< outermost first
  };
  double scale = 1;
  bool relu = false;
  Tensor result;
  std::optional<Tensor> addend;  ///< an element for each of the space's
  std::optional<Tensor> bias;    ///< repeated along a part of it
};

/// The dot or convolution of a call's graph. Errors: unsupported (there are two, or it is of integers), internal (there
/// is none).
Result<NodeId> root_of_call(const Graph& call);

/// Which of the call's parameters a view shows. Error: unsupported, naming the operator that makes it.
Result<int> parameter_of(const Graph& call, const StridedView& view);

/// Follows the operators behind `root` to the call's result. `shown`: what the root makes, its dimensions as digits of
/// the space. Error: unsupported, with the operator that no epilogue has, or the layout that no strides describe.
Result<CallEpilogue> read_epilogue(const Graph& call, NodeId root, StridedView shown);

/// Whether a BLAS or cuDNN has these types together (cuBLAS library, §3.4.17; cuDNN backend, "Supported Graph
/// Patterns"): inputs alike, what is added like the result, which is like the inputs or f32 behind 16 bits. Error:
/// unsupported; `what`: "a product".
Status check_call_types(DType left, DType right, DType accumulation, const CallEpilogue& epilogue, const char* what);

}  // namespace stitch::graph
