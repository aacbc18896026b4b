#pragma once

#include <functional>
#include <vector>

#include "profiler/gpu/context.h"
#include "profiler/measure/timed_device.h"

namespace stitch::profiler {

/// Puts the steps of one sample on the context's stream; one function for each rotation.
using GpuWork = std::vector<std::function<Status()>>;

/// Times `work` as `task` says: warms up, then takes samples in batches until the stopping rule is content, with a cold
/// L2 before each; drops batches during which the GPU throttled; counts hardware events of one more launch at the end.
/// Samples are durations of CUPTI's activity records; where it has none of whole graphs, which is found out by the
/// first one, from a graph's first kernel's start to its last one's end. A library's call by itself is timed likewise,
/// from its first kernel's start to its last one's end; how many there are is counted before. Errors: unavailable (no
/// CUPTI, CUPTI refuses, nothing but throttled samples), unsupported (a call that runs no kernel), and those of the
/// work.
Result<Measurement> measure_work(GpuContext& gpu, const GpuWork& work, const MeasureTask& task);

}  // namespace stitch::profiler
