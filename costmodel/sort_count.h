#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/features.h"

namespace stitch::costmodel {

/// Adds what putting lines in order takes (codegen/device/sort.cuh): making words of keys, the comparisons of the
/// network, the passes through shared memory between them with their barriers, and what is gathered along.
void count_sort(const CountedGroup& counted, GroupFeatures& features);

}  // namespace stitch::costmodel
