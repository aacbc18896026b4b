#pragma once

#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// Third pass: lets copies run ahead. Where a turn fills tile g of a buffer with S > 1 stages and uses it, it now fills
/// tile g + S - 1, if there is one, in stage (g + S - 1) mod S, and uses tile g as before. Where the source of the copy
/// is itself rotated, tiles are counted over both loops: the last S - 1 steps of an outer turn fill from the tile of
/// the next one (carry into the outer loop); else they stop at the end of their own loop.
///
/// Expects: stages are given, nothing is rotated. Guarantees: every copy of a buffer with stages is `rotated`, fills a
/// stage that the turn's own use does not touch, and has a guard against tiles that there are not. The first S - 1
/// tiles are filled by nobody until hoist_prologues has run.
void rotate(TileNest& nest);

}  // namespace stitch::kernel::pipeline
