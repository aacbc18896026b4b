#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// A matmul or convolution as a library (cuBLASLt, cuDNN) runs it, with what such a call does for nothing: any strides
/// and batch layout of its operands and result, a scale, a bias along its columns, an activation, the addition of an
/// existing tensor (beta = 1), the conversion of its result. Or what one kernel of ours computes in its place: several
/// products with what is between them (attention.h, attention_gradients.h).
struct LibraryCall {
  NodeId root = -1;              ///< the dot or convolution
  std::vector<Value> operands;   ///< what it reads: left, right, then bias and addend where there are any
  std::vector<Value> viewed;     ///< operands of its contractions, before layouts were looked through
  std::vector<NodeId> epilogue;  ///< nodes that it computes besides the root, in order
  Value result;                  ///< what it writes
  /// What it writes besides, in the order of its graph's results: only a kernel of ours has several.
  std::vector<Value> further = {};
  std::string description = {};  ///< "dot f32 [1024,768]·[768,3072] + bias, relu"

  /// All that it writes.
  [[nodiscard]] std::vector<Value> results() const {
    std::vector<Value> all = {result};
    all.insert(all.end(), further.begin(), further.end());
    return all;
  }
  [[nodiscard]] bool writes(Value value) const {
    return value == result || std::find(further.begin(), further.end(), value) != further.end();
  }
};

/// Whether a kernel of ours is to compute a call, given its graph. `rest_apart`: what a library's call leaves of it
/// would be a kernel of its own; it is part of one anyway where operators that no call takes read the result.
using OwnCall = std::function<bool(const Graph& call, bool rest_apart)>;

struct LibraryOptions {
  bool layouts = true;  ///< read operands through reshape, transpose, slice and (batch) broadcast
  bool epilogues = true;
  /// Where a layout makes several calls of one product, a kernel writes it out if that is quicker (call_layouts.h).
  bool quick_layouts = false;
  /// Whether a kernel of ours computes more than a library's call does: asked with the graph of a whole attention
  /// (attention.h), of one's gradients (attention_gradients.h) or of a dot with a longer epilogue (wide_epilogue.h),
  /// which is then one call. Empty: none does.
  OwnCall own = {};
};

}  // namespace stitch::graph
