#pragma once

#include <string>
#include <string_view>

#include "cli/trace/trace_file.h"

namespace stitch::cli {

/// A process's phases over time as an SVG element: those inside others stand below them, moments (swaps, fall-backs)
/// are strokes above; long times of which nothing is told are cut short, with what they take beside the cut. What is
/// pointed at says what it is. "" where nothing took time. Of many events the longest are drawn.
std::string timeline_of(const ProcessTrace& trace);

/// The style sheet of such elements.
std::string_view timeline_style();

}  // namespace stitch::cli
