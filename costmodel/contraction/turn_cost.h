#pragma once

#include "base/device_spec.h"
#include "kernel/contraction/contraction_schedule.h"

// What one product costs in a turn of a kernel that has several (attention_time.h, chain_time.h), by warps that each
// have whole rows. `part`: the product as a contraction of whole tiles.
namespace stitch::costmodel {

/// Cycles of shared memory for what `warps` read of its operands. `with_left`: weights in registers are no load.
double turn_shared_cycles(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& part, int warps,
                          bool with_left, const DeviceSpec& device);
/// Instructions of a warp: products, and loads of fragments.
double turn_instructions(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& part);

}  // namespace stitch::costmodel
