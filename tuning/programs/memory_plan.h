#pragma once

#include <cstdint>

#include "api/program_document.h"

namespace stitch::tuning {

/// What a region's results are before they are written.
enum class ResultMemory : std::uint8_t {
  lent,  ///< room for values that end before the result is written first
  kept,  ///< not ours: the caller may have there what he has us read (graph::Constraints::in_place)
};

/// Gives every value whose place is the program's to choose its place in the region's arena or in the memory of a
/// result, from the order of the steps, and fills the region's arena and lower bound. Values that no step touches lie
/// at 0 and take nothing.
void plan_memory(api::ProgramRegion& region, ResultMemory results);

}  // namespace stitch::tuning
