#pragma once

#include "base/hash.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Names what a group computes, as far as mappings and estimates can tell: two groups of one kernel with the same hash
/// have the same mappings, legality and predictions. Parameters and results count by their sizes and by where the group
/// uses the same one again, not by which ones they are.
Hash128 group_hash(const graph::Graph& graph, const GroupStructure& group);

}  // namespace stitch::kernel
