#pragma once

#include "kernel/attention/chain_schedule.h"
#include "profiler/verify/verify.h"

namespace stitch::profiler {

/// How a chain of products runs, for verify_kernel: of its tiles of rows the first and the last of a batch and others
/// that the seed draws.
Execution execution_of(const kernel::ProductChain& chain, const kernel::ChainSchedule& schedule);

}  // namespace stitch::profiler
