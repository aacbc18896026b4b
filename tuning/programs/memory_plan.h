#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/program_document.h"

namespace stitch::tuning {

/// What a region's results are before they are written.
enum class ResultMemory : std::uint8_t {
  lent,  ///< room for values that end before the result is written first
  kept,  ///< not ours: the caller may have there what he has us read (graph::Constraints::in_place)
};

/// The fewest bytes of an arena for the region's values in the order of its steps: what plan_memory calls its lower
/// bound.
std::int64_t least_arena_bytes(const api::ProgramRegion& region, ResultMemory results);

/// The steps that write what is alive where the arena's values are most, the last ones first.
std::vector<std::size_t> steps_of_peak(const api::ProgramRegion& region);
/// The steps that read what is alive there.
std::vector<std::size_t> readers_of_peak(const api::ProgramRegion& region);

/// Gives every value whose place is the program's to choose its place in the region's arena or in the memory of a
/// result, from the order of the steps, and fills the region's arena and lower bound. Values that no step touches lie
/// at 0 and take nothing.
void plan_memory(api::ProgramRegion& region, ResultMemory results);

}  // namespace stitch::tuning
