#pragma once

#include "kernel/attention/attention_schedule.h"
#include "profiler/verify/verify.h"

namespace stitch::profiler {

/// How an attention runs, for verify_kernel: of its tiles of rows the first and the last of a batch and others that the
/// seed draws, each with all blocks that share its keys.
Execution execution_of(const kernel::AttentionProblem& problem, const kernel::AttentionSchedule& schedule);

}  // namespace stitch::profiler
