#include "search/loop_choice.h"

#include "graph/canonical.h"
#include "graph/cut.h"
#include "search/row_split.h"

namespace stitch::search {
namespace {

/// Least time of a library call, µs: the launch, first loads and last stores. What it computes comes for nothing.
double least_call_us(const DeviceSpec& device) {
  return device.launch_us + 2 * device.dram_latency / device.clock_hz * 1e6;
}

/// One turn of a loop by kernels and library calls of its own, µs; nothing when there is no plan for it.
std::optional<double> turn_us(const graph::Graph& body, KernelCache& cache, const FusionOptions& options) {
  graph::CutOptions cutting;
  cutting.carried = true;
  const graph::CutGraph cut = graph::cut(body, cutting);
  double us = static_cast<double>(cut.calls.size()) * least_call_us(cache.scorer().device());
  for (const graph::FragmentSite& site : cut.fragments) {
    const Result<graph::CanonicalForm> form = graph::canonicalise(site.graph);
    if (!form) return std::nullopt;
    const Result<FusionPlan> plan = explore_fusion(form->graph, cache, options);
    if (!plan) return std::nullopt;
    us += plan->predicted_us;
  }
  return us;
}

}  // namespace

bool runs_in_one_kernel(const graph::Graph& loop, KernelCache& cache, const FusionOptions& options) {
  const auto node = recurrent_loop(loop);
  if (!node) return false;
  const auto entry = cache.explore(loop);
  if (!entry || !entry->kernel->feasible()) return false;
  const auto turn = turn_us(*loop.node(*node).regions[0], cache, options);
  const auto turns = static_cast<double>(entry->kernel->candidates.front().program.recurrent->turns);
  return !turn || entry->kernel->predicted_us() < turns * *turn;
}

}  // namespace stitch::search
