#pragma once

#include <string>

namespace stitch::codegen {

/// What a kernel depends on besides its graph, its schedule and the compiler: the tool and its device headers. Part of
/// every plan's key and of every recording: "0.1.0-3f1b62a0c9de".
std::string generator_version();

}  // namespace stitch::codegen
