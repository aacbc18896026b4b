#pragma once

#include <vector>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// How each reduction of a group crosses the levels of its mapping: shuffles within a warp, an exchange through shared
/// memory between warps and blocks of a cluster, partial results between tiles. `group` has its mapping, and
/// thread_order. Fails with kind constraint where a thread would have more accumulators than registers.
Result<std::vector<ReductionPlan>> plan_reductions(const GroupStructure& structure, const GroupProgram& group);

/// Shared memory of one of the two buffers through which these reductions are exchanged (GroupProgram::exchange_bytes).
std::int64_t exchange_bytes(const GroupStructure& structure, const std::vector<ReductionPlan>& plans);

}  // namespace stitch::kernel
