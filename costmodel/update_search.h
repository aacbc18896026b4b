#pragma once

#include "costmodel/counted_group.h"
#include "costmodel/group_features.h"

namespace stitch::costmodel {

/// Whether a scatter's updates are in sorted lines (kernel/index/sorted_indices.h), so that its elements search for
/// theirs.
bool searches_updates(const kernel::Anchor& anchor);

/// Adds what such a scatter does instead of sweeps: every place searches every line, or a warp 32 lines at a time, and
/// combines the updates that it finds. How many these are is in the indices; counted is with updates that are spread
/// evenly over the places.
void count_update_search(const CountedGroup& counted, GroupFeatures& features);

}  // namespace stitch::costmodel
