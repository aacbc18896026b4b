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

/// Whether a kernel of ours is to compute a call, given its graph. `rest_apart`: what a library's call leaves of it
/// would be a kernel of its own; it is part of one anyway where operators that no call takes read the result.
using OwnCall = std::function<bool(const Graph& call, bool rest_apart)>;

struct LibraryOptions {
  bool layouts = true;  ///< read operands through reshape, transpose, slice and (batch) broadcast
  bool epilogues = true;
  /// Whether a kernel of ours computes more than a library's call does: asked with the graph of a whole attention
  /// (attention.h) or of a dot with a longer epilogue (wide_epilogue.h), which is then one call. Empty: none does.
  OwnCall own = {};
};

}  // namespace stitch::graph
