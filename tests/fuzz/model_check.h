#pragma once

#include "base/result.h"
#include "import/import.h"

namespace stitch::fuzz {

/// Small, so that what takes long is a fault.
import::ImportOptions import_limits();

/// A model is refused with a message that is not "internal", or it is a graph that verifies.
void check_model(const Result<import::Imported>& imported);

}  // namespace stitch::fuzz
