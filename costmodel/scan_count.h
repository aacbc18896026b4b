#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/group_features.h"

namespace stitch::costmodel {

/// Adds what a scan does beside its loads and stores (codegen/scan_emitter): combining within the runs of threads,
/// shuffles over the lanes of a line, the exchange of warps' totals with its barrier, in each turn along the scanned
/// axis; and the chain of the turns, each of which waits for loads of its own and for the total of the one before.
void count_scan(const CountedGroup& counted, GroupFeatures& features);

/// Adds what putting lines in order takes (codegen/device/sort.cuh): making words of keys, the comparisons of the
/// network, the passes through shared memory between them with their barriers, and what is gathered along.
void count_sort(const CountedGroup& counted, GroupFeatures& features);

}  // namespace stitch::costmodel
