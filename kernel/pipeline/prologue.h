#pragma once

#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// Fourth pass: fills the first S - 1 tiles of every rotated buffer before the loop that goes on from there: of a
/// carried buffer above the outermost loop, behind the prologue of what it is filled from; of others above their own
/// loop. Tiles of one turn stand together, so that they are one group of copies.
///
/// Expects: rotate has run. Guarantees: every tile is filled exactly once, before its use in program order.
void hoist_prologues(TileNest& nest);

}  // namespace stitch::kernel::pipeline
