#include "search/partition/loop_choice.h"

#include <algorithm>
#include <functional>

#include "graph/canonical.h"
#include "graph/cut.h"
#include "kernel/loop/row_split.h"

namespace stitch::search {
namespace {

/// Least time of a library call, µs: the launch, first loads and last stores. What it computes comes for nothing.
double least_call_us(const DeviceSpec& device) {
  return device.launch_us + 2 * device.dram_latency / device.clock_hz * 1e6;
}

graph::CutGraph cut_body(const graph::Graph& graph, graph::NodeId loop) {
  graph::CutOptions options;
  options.carried = true;
  options.constraints = graph.constraints;
  return graph::cut(*graph.node(loop).regions[0], options);
}

/// The kernels of all fragments of a body, and what they take together.
Result<FusionPlan> plan_of_turn(const graph::CutGraph& body,
                                const std::function<Result<FusionPlan>(const graph::Graph&)>& plan_of) {
  FusionPlan turn;
  for (const graph::FragmentSite& site : body.fragments) {
    STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(site.graph));
    STITCH_ASSIGN(FusionPlan plan, plan_of(form.graph));
    std::ranges::move(plan.kernels, std::back_inserter(turn.kernels));
    turn.predicted_us += plan.predicted_us;
  }
  return turn;
}

}  // namespace

bool runs_in_one_kernel(const graph::Graph& loop, KernelCache& cache, const FusionOptions& options) {
  const auto node = kernel::recurrent_loop(loop);
  if (!node) return false;
  const auto entry = cache.explore(loop, options.stop);
  if (!entry || !entry->kernel->feasible()) return false;
  const graph::CutGraph body = cut_body(loop, *node);
  const auto turn = plan_of_turn(body, [&](const auto& fragment) { return explore_fusion(fragment, cache, options); });
  if (!turn) return turn.error().kind != ErrorKind::cancelled;
  const double calls_us = static_cast<double>(body.calls.size()) * least_call_us(cache.scorer().device());
  const double turns = entry->kernel->candidates.front().program.recurrent->turns;
  return entry->kernel->predicted_us() < turns * (calls_us + turn->predicted_us);
}

Result<UnfusedFragment> unfused_fragment(const graph::Graph& fragment, KernelCache& cache,
                                         const std::stop_token& stop) {
  UnfusedFragment unfused;
  const auto plan_of = [&](const graph::Graph& graph) { return unfused_plan(graph, cache, stop); };
  const auto loop = kernel::recurrent_loop(fragment);
  if (!loop) {
    STITCH_ASSIGN(unfused.once, plan_of(fragment));
    return unfused;
  }
  const graph::Node& node = fragment.node(*loop);
  STITCH_ASSIGN(unfused.once, plan_of_turn(cut_body(fragment, *loop), plan_of));
  unfused.turns = std::max<std::int64_t>(1, node.as<graph::LoopAttributes>().trip_count);
  return unfused;
}

}  // namespace stitch::search
