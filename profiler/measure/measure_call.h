#pragma once

#include <string>

#include "base/result.h"
#include "graph/graph.h"
#include "profiler/measure/measure_kernel.h"

namespace stitch::profiler {

/// What a library takes for a call.
struct MeasuredCall {
  std::string library;  ///< "cuBLASLt 13.0.0"
  Measurement measurement;
};

/// Times a library's call, given by the graph of what it computes, as measure_kernel times a kernel of ours: on inputs
/// of its own, sets of buffers in turns, the same stopping rule, and L2 as cold. A sample is the time from the call's
/// first kernel's start to its last one's end; of one with copies, which no kernel is, that of a CUDA graph of it.
/// Errors: those of the session's prepare, allocate and measure; unsupported (there is nothing to compute).
Result<MeasuredCall> measure_call(TimedSession& session, const graph::Graph& call, const KernelMeasureOptions& options);

}  // namespace stitch::profiler
