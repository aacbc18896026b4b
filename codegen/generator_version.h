#pragma once

#include <string>
#include <string_view>

namespace stitch::codegen {

/// What a kernel depends on besides its graph, its schedule and the compiler: the tool, its device headers and its
/// emitters. Part of every plan's key and of every recording: "0.1.0-3f1b62a0c9de".
std::string generator_version();

/// Of the emitters' sources, as they were when the library was built: 64 hexadecimal digits.
std::string_view emitters_hash();

}  // namespace stitch::codegen
