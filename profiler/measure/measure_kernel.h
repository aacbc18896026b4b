#pragma once

#include <cstdint>

#include "base/result.h"
#include "codegen/kernel.h"
#include "graph/graph.h"
#include "profiler/measure/timed_device.h"
#include "profiler/verify/input_source.h"

namespace stitch::profiler {

struct KernelMeasureOptions {
  MeasureOptions measure;
  Distribution distribution = Distribution::mixed;  ///< of the inputs
  std::uint64_t seed = 1;
  int rotations = 3;                                ///< sets of buffers that samples take in turns, at most
  std::int64_t most_bytes = std::int64_t{8} << 30;  ///< of all sets together; at least one set is always used
};

/// Times a generated kernel on inputs of its own, with what its launches leave behind as the next one finds it. The
/// kernel should have been verified: a wrong address in a kernel may end the device. `graph` is what it was generated
/// from. Errors: those of the session's load, allocate and measure.
Result<Measurement> measure_kernel(TimedSession& session, const graph::Graph& graph,
                                   const codegen::GeneratedKernel& kernel, const KernelImage& image,
                                   const KernelMeasureOptions& options);

}  // namespace stitch::profiler
