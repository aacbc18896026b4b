#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "import/onnx/frame.h"

namespace stitch::import::onnx {

/// What a loop does, over values that it carries; parameter 0 is the s64 number of the iteration.
struct LoopBody {
  /// Emits one iteration into `region` and returns the next values of parameters 1, 2, …. Values of the frame around
  /// it are brought in with Frame::import.
  std::function<Result<std::vector<graph::Value>>(Frame& region, const std::vector<graph::Value>& parameters)> step;
  /// Emits the condition for another iteration: a pred scalar.
  std::function<graph::Value(graph::Builder& b, const std::vector<graph::Value>& parameters)> proceed;
};

/// Emits a loop and returns what it carries out. What the body captures is carried along unchanged. `trip_count` is -1
/// when it is not known. Errors: unsupported when an iteration changes the type of a carried value; what `step`
/// returns.
Result<std::vector<graph::Value>> emit_loop(Frame& frame, const std::vector<graph::Value>& initial,
                                            std::int64_t trip_count, const LoopBody& body);

/// A loop that runs `trip_count` times.
Result<std::vector<graph::Value>> emit_counted_loop(Frame& frame, const std::vector<graph::Value>& initial,
                                                    std::int64_t trip_count, decltype(LoopBody::step) step);

/// Emits a conditional on a pred scalar; `branches[0]` emits the results when it is true, `branches[1]` otherwise.
/// Errors: unsupported when the branches' results differ in type; what a branch returns.
using Branch = std::function<Result<std::vector<graph::Value>>(Frame& region)>;
Result<std::vector<graph::Value>> emit_conditional(Frame& frame, graph::Value condition, const Branch& when_true,
                                                   const Branch& when_false);

}  // namespace stitch::import::onnx
