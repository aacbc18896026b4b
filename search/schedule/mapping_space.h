#pragma once

#include <cstdint>
#include <vector>

#include "base/device_spec.h"
#include "kernel/program/program.h"

namespace stitch::search {

struct MappingSpaceOptions {
  int threads = 256;  ///< of the block
  int cluster = 1;
  std::int64_t partial_tiles = 1;  ///< wanted number of tiles along axes that leave partial results
  std::int64_t partials = 1;       ///< partial results that the phase before left
  bool wide = true;                ///< enumerate register factors and layouts broadly; else only the usual choice
  bool loads_ahead = false;        ///< try loops with their loads a turn ahead, too
  bool one_tile = false;           ///< the block loops over what its threads do not cover at once
};

/// Mappings worth scoring for a group: which axis is walked by vectors and lanes, whether rows are shifted for them,
/// how many threads share a row, how many rows a block holds, what a thread unrolls, where reused values are kept,
/// whether loops make their loads a turn ahead, whether tensor cores take a turn's products.
/// Enumerate only: legality and cost are other functions' business.
std::vector<kernel::GroupMapping> enumerate_mappings(const kernel::GroupStructure& group,
                                                     const MappingSpaceOptions& options, const DeviceSpec& device);

}  // namespace stitch::search
