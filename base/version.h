#pragma once

#include <string_view>

namespace stitch {

/// The tool's version, recorded with everything it stores: that of `project()` in CMakeLists.txt, the one place that
/// names it. The text ends in a null character, as C's strings do.
extern const std::string_view tool_version;

}  // namespace stitch
