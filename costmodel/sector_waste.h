#pragma once

#include "costmodel/counted_group.h"

// How many sectors the requests of a warp touch for the bytes that its lanes want: by the strides of the address along
// the axes on which the lanes lie. 1 where lanes lie next to one another and begin with a sector; 8 where each of 32
// lanes takes four bytes of a sector of its own. load_traffic and store_traffic multiply their bytes by it.
namespace stitch::costmodel {

/// Bytes of sectors that a warp's request moves for every byte asked for: lanes that are far apart touch a sector
/// each. `bytes`: of an element; `piece`: bytes that a lane takes along the vector axis at once.
double sector_waste(const CountedGroup& counted, kernel::Index address, int bytes, double piece);

/// Sectors that a warp's request touches because it begins within one, as a factor: on average over all beginnings
/// that the address may have. `width`: elements of a lane, which lie next to those of the other lanes.
double misaligned_waste(const CountedGroup& counted, kernel::Index address, int bytes, int width);

/// Bytes that a lane takes of one run along the vector axis, in however many accesses.
double run_bytes(const CountedGroup& counted, const kernel::Item& load);

}  // namespace stitch::costmodel
