#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// A matmul or convolution as a library (cuBLASLt, cuDNN) runs it, with what such a call does for nothing: any strides
/// and batch layout of its operands and result, a scale, a bias along its columns, an activation, the addition of an
/// existing tensor (beta = 1), the conversion of its result.
struct LibraryCall {
  NodeId root = -1;              ///< the dot or convolution
  std::vector<Value> operands;   ///< what it reads: left, right, then bias and addend where there are any
  std::vector<Value> viewed;     ///< operands of its contractions, before layouts were looked through
  std::vector<NodeId> epilogue;  ///< nodes that it computes besides the root, in order
  Value result;                  ///< what it writes
  std::string description;       ///< "dot f32 [1024,768]·[768,3072] + bias, relu"
};

struct LibraryOptions {
  bool layouts = true;  ///< read operands through reshape, transpose, slice and (batch) broadcast
  bool epilogues = true;
  /// Whether a whole attention (graph/attention.h) is one call: asked with its graph. None are when it is empty.
  std::function<bool(const Graph&)> attention = {};
};

/// One call per dot and convolution of the graph (regions not included), in order of their roots.
std::vector<LibraryCall> find_library_calls(const Graph& graph, const LibraryOptions& options = {});

}  // namespace stitch::graph
