#pragma once

#include "api/program_document.h"

namespace stitch::tuning {

/// Gives every value of the region's arena its offset, from the order of the steps, and fills the region's arena and
/// lower bound. Values that no step touches lie at 0 and take nothing.
void plan_memory(api::ProgramRegion& region);

}  // namespace stitch::tuning
