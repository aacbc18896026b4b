#pragma once

#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// Commits, waits and acquires of shared memory. Copies of one turn are a group; a wait lets `S - 2` groups
/// stay under way and is a barrier, so that all threads' copies are there for all, and so that what was read before it
/// may be overwritten behind it: one barrier a turn. Where it stands:
///   - one stage: acquire, copies, commit, wait for all, use;
///   - more, used directly: at the top of the turn, before the copies;
///   - used by copies that are carried (the consumer is itself pipelined): moved inside, before the step at which they
///     first read the next tile, S' - 1 steps from the end; and once between both prologues.
///
/// Expects: prologues are hoisted. Guarantees: simulate (kernel/pipeline/simulation.h) finds nothing.
void place_waits(TileNest& nest);

}  // namespace stitch::kernel::pipeline
