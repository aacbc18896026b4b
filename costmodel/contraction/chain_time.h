#pragma once

#include "base/device_spec.h"
#include "costmodel/analytical_constants.h"
#include "costmodel/contraction/attention_time.h"
#include "kernel/attention/chain_schedule.h"

namespace stitch::costmodel {

/// How long a kernel of chained products takes, and what of it, in the terms of an attention's time: a warp multiplies,
/// makes weights and multiplies again, one after the other, and only other warps of its scheduler hide that. Turns are
/// those of the walk. Of a legal schedule; `walk` is its chain_walk. Nothing of it was measured: rates are those of
/// attention by mma.sync, instructions of a weight were counted in machine code.
AttentionTime chain_time(const kernel::ProductChain& chain, const kernel::ChainSchedule& schedule,
                         const kernel::KeyWalk& walk, const DeviceSpec& device,
                         const AnalyticalConstants& constants = {});

/// What the same takes step by step, µs: the library's products, and a kernel that reads the scores once and writes the
/// weights once.
double unfused_chain_us(const kernel::ProductChain& chain, const DeviceSpec& device,
                        const AnalyticalConstants& constants = {});

}  // namespace stitch::costmodel
