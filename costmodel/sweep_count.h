#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/group_features.h"
#include "costmodel/load_traffic.h"

namespace stitch::costmodel {

/// Adds one sweep of a group: the requests of its loads, the instructions of its items by unit, those of its sums, what
/// it holds in shared memory, how many bytes it has in flight, and its part of a tile's dependent chain. `sweep`: its
/// number in the group.
void count_sweep(const CountedGroup& counted, int sweep, LoadTraffic& loads, GroupFeatures& features);

/// Cycles from an instruction of a warp to its next one, while the other warps of the block have their turns.
double cycles_of_instruction(int threads);

}  // namespace stitch::costmodel
