#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// What a nest did when it was run tile by tile.
struct SimulatedNest {
  std::int64_t computed = 0;  ///< computes
  std::int64_t copied = 0;    ///< copies whose guards held
  std::int64_t barriers = 0;  ///< waits and acquires
  std::int64_t ahead = 0;     ///< most groups of copies that were under way at a compute
};

/// Runs a nest with tiles for values, one thread standing for a block of many. Error, kind internal, with tile and
/// statement, at the first
///   - read of a stage that holds another tile than is asked for, or none;
///   - read of a tile in shared memory whose copies have not been waited for;
///   - copy to a stage of shared memory that was read since the last barrier (another thread may still read it);
///   - compute whose operands are of different tiles.
Result<SimulatedNest> simulate(const TileNest& nest);

}  // namespace stitch::kernel::pipeline
