#pragma once

#include <vector>

#include "base/result.h"
#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// Pipelines a nest: `stages[b]` stages of buffer b, at every level at once (ALCOP §3). The passes, in order:
///
///     give_stages        multi-buffering: tile t lies in stage t mod S        (multi_buffering.h)
///     rotate             a turn fills what the turn S - 1 later uses          (rotation.h)
///     hoist_prologues    the first S - 1 tiles are filled before the loop     (prologue.h)
///     place_waits        commits, waits, acquires                             (waits.h)
///     part_staged        loads stay where they are, stores go behind the use  (staging.h)
///
/// With 1 stage everywhere what comes out loads, waits and computes. Errors: those of give_stages.
Result<TileNest> pipelined(TileNest nest, const std::vector<int>& stages);

}  // namespace stitch::kernel::pipeline
