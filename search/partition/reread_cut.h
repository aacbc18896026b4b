#pragma once

#include <vector>

#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// The fragment cut at values that are read several times over: by many slices and pads, or by windows that overlap.
/// In one kernel with what reads it, each of its elements is computed anew for every reading, and what such a value is
/// made of, if it is one too, for every reading of every reading; the delta evaluator sees only bytes. Parts are
/// connected; there are none where no value is such.
std::vector<VertexSet> staged_partition(const VertexGraph& vertices);

}  // namespace stitch::search
