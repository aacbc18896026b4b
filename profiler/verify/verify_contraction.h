#pragma once

#include "kernel/contraction/contraction_schedule.h"
#include "profiler/verify/verify.h"

namespace stitch::profiler {

/// Multiply-adds of a tensor-core instruction that the emulated device runs in the time of a scalar operation.
inline constexpr std::int64_t products_of_operation = 16;

/// How a contraction runs, for verify_kernel: of its tiles the four corners of a batch (which hold the edges) and
/// others that the seed draws, each with all blocks that share its depth.
Execution execution_of(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule);

}  // namespace stitch::profiler
