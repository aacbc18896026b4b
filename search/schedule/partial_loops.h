#pragma once

#include <cstdint>
#include <vector>

#include "kernel/index/axis_set.h"
#include "kernel/program/schedule.h"

namespace stitch::search {

/// Loops over what threads and registers of `mapping` leave of the axes `partial`, whose reductions leave partial
/// results, so that there are about `wanted_tiles` tiles in all. `interleaved`: tiles that walk together lie side by
/// side, which makes the innermost axes those of the tiles instead of the outermost.
void loop_partials(std::vector<kernel::AxisMapping>& mapping, const std::vector<std::int64_t>& extents,
                   kernel::AxisSet partial, std::int64_t wanted_tiles, bool interleaved);

}  // namespace stitch::search
