#pragma once

#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// Last pass: copies that are `staged` (of what is computed while it is loaded no copy engine knows) are parted in two,
/// so that nobody waits for their loads. A turn asks for a tile where its copy would stand, and stores it as late as
/// that may be: behind the turn's use of another tile, or, where the wait for the next tile is within that use, before
/// this. What is asked for stays in registers, of one tile, whatever the number of stages. Before a loop, and of one
/// stage, a copy is loaded and stored at once.
///
/// Expects: waits are placed. Guarantees: simulate finds nothing; the registers hold a tile when it is stored.
void part_staged(TileNest& nest);

}  // namespace stitch::kernel::pipeline
