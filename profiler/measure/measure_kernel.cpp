#include "profiler/measure/measure_kernel.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "graph/traffic.h"
#include "profiler/verify/kernel_buffers.h"

namespace stitch::profiler {
namespace {

/// Bytes of one set of buffers.
std::int64_t bytes_of(const graph::Graph& graph, const codegen::GeneratedKernel& kernel) {
  std::int64_t bytes = graph::interface_bytes(graph);
  for (const auto& scratch : kernel.scratch) bytes += scratch.bytes;
  return bytes;
}

}  // namespace

Result<Measurement> measure_kernel(TimedSession& session, const graph::Graph& graph,
                                   const codegen::GeneratedKernel& kernel, const KernelImage& image,
                                   const KernelMeasureOptions& options) {
  STITCH_ASSIGN(const KernelHandle handle, session.load(image));
  const std::int64_t affordable = options.most_bytes / std::max<std::int64_t>(1, bytes_of(graph, kernel));
  const std::size_t sets = std::clamp<std::int64_t>(affordable, 1, options.rotations);
  std::vector<KernelBuffers> buffers;
  MeasureTask task;
  task.options = options.measure;
  for (std::size_t i = 0; i < sets; ++i) {
    const auto sources = make_inputs(graph, options.distribution, mix(options.seed, i));
    STITCH_ASSIGN(auto set, KernelBuffers::allocate(session, graph, kernel, sources));
    task.rotations.push_back({PlannedLaunch{handle, set.shape(), set.arguments(false)}});
    buffers.push_back(std::move(set));
  }
  return session.measure(task);
}

}  // namespace stitch::profiler
