#pragma once

#include <string_view>

namespace stitch {

/// The tool's version, recorded with everything it stores.
inline constexpr std::string_view tool_version = "0.1.0";

}  // namespace stitch
