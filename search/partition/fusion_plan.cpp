#include "search/partition/fusion_plan.h"

#include "kernel/program/traffic.h"

namespace stitch::search {

std::int64_t plan_bytes(const FusionPlan& plan) {
  std::int64_t bytes = 0;
  for (const PlannedKernel& planned : plan.kernels) {
    bytes += kernel::scheduled_bytes(planned.kernel->graph, planned.kernel->candidates.front().program);
  }
  return bytes;
}

}  // namespace stitch::search
