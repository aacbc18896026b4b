#include "search/partition/fusion_plan.h"

#include <algorithm>

#include "graph/in_place.h"
#include "kernel/program/traffic.h"
#include "search/partition/unwaited_saving.h"

namespace stitch::search {

kernel::UnwaitedInputs unwaited_inputs(const graph::Graph& fragment, std::span<const graph::Value> arguments,
                                       std::size_t at) {
  kernel::UnwaitedInputs inputs = 0;
  if (at == 0) return inputs;
  const auto is_updated = [&](graph::NodeId parameter) {
    return std::ranges::any_of(fragment.results(), [&](graph::Value result) {
      const auto updated = graph::updated_parameter(fragment, result);
      return updated && fragment.parameters()[*updated] == parameter;
    });
  };
  for (std::size_t a = 0; a < std::min<std::size_t>(arguments.size(), 64); ++a) {
    const graph::NodeId node = arguments[a].node;
    if (fragment.node(node).op == graph::Op::parameter && !is_updated(node)) inputs |= kernel::UnwaitedInputs{1} << a;
  }
  return inputs;
}

void take_off_unwaited(const graph::Graph& fragment, const DeviceSpec& device, FusionPlan& plan) {
  for (std::size_t at = 1; at < plan.kernels.size(); ++at) {
    const PlannedKernel& planned = plan.kernels[at];
    plan.unwaited_saving_us += unwaited_saving_us(planned.kernel->graph, planned.kernel->candidates.front().program,
                                                  unwaited_inputs(fragment, planned.arguments, at), device);
  }
  plan.predicted_us -= plan.unwaited_saving_us;
}

std::int64_t plan_bytes(const FusionPlan& plan) {
  std::int64_t bytes = 0;
  for (const PlannedKernel& planned : plan.kernels) {
    bytes += kernel::scheduled_bytes(planned.kernel->graph, planned.kernel->candidates.front().program);
  }
  return bytes;
}

}  // namespace stitch::search
