#include "base/version.h"

namespace stitch {

// Initialised before any code runs, so that other files' static objects may read it.
constinit const std::string_view tool_version = STITCH_VERSION;

}  // namespace stitch
