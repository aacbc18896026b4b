#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/group_features.h"

namespace stitch::costmodel {

/// Adds what the anchors of a group store: results and scratch to device memory (partial sums and atomic additions
/// among them), what a recurrent kernel hands on to shared memory.
void count_stores(const CountedGroup& counted, GroupFeatures& features);

}  // namespace stitch::costmodel
