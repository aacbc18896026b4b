#pragma once

#include "base/device_spec.h"
#include "kernel/contraction/contraction_schedule.h"

// What DeepCuts (Jung, Dao, Lee: PLDI 2021) prunes by before it measures: how much of the device's rate a kernel can
// reach at the most, of which it compiles the greatest alone. Our own prediction (contraction_time.h) is nearer and
// takes microseconds, so that schedules are pruned only where a caller asks for it, to see what that would lose.
namespace stitch::costmodel {

/// Shares of the rate that multiplies, each up to 1.
struct PruningBound {
  /// Of what a block multiplies for each byte that it loads and stores, over what the device has for each byte. Blocks'
  /// tiles are found in L2, which DeepCuts has no bandwidth of.
  double global = 1;
  /// Of how long a scheduler's warps multiply for a load from shared memory, over its latency. Tiles have no bank
  /// conflicts. 1 of what reads shared memory by itself.
  double shared = 1;
  /// Blocks, over those of as many whole rounds of one for each SM. 1 where turns are shared.
  double last_wave = 1;

  [[nodiscard]] double product() const { return global * shared * last_wave; }
};

/// Of a legal schedule: what exceeds limits has none.
PruningBound pruning_bound(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                           const DeviceSpec& device);

}  // namespace stitch::costmodel
