#pragma once

#include <string>
#include <vector>

#include "cli/trace/trace_file.h"

namespace stitch::cli {

/// What processes did as one page that needs nothing from elsewhere, without a script, for light and dark: of each a
/// timeline, what its phases took, its fragments with their plans, hits and misses, what fell back and why, and the
/// times of steps where they were taken.
std::string to_page(const std::vector<ProcessTrace>& traces);

}  // namespace stitch::cli
