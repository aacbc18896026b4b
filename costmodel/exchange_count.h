#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/group_features.h"

namespace stitch::costmodel {

/// Adds what threads hand each other: the shuffles of a group's reductions, their exchange through shared memory and
/// within a cluster, and the barriers of a tile.
void count_reductions(const CountedGroup& counted, GroupFeatures& features);

/// Adds what a scatter does instead of sweeps and reductions: it tests every update for every row, 32 at a time, and
/// adds the few that hit; or it searches sorted lines of updates (kernel/index/sorted_indices.h) for those of each row,
/// of which there are taken to be as many as on average.
void count_scatter(const CountedGroup& counted, GroupFeatures& features);

/// Adds what the barriers of a tile take to its latency_cycles; `block_threads` wait for each other.
void add_barrier_cycles(GroupFeatures& features, int block_threads, const DeviceSpec& device);

}  // namespace stitch::costmodel
