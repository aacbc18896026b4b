#pragma once

#include <cstdint>

#include "import/hlo/syntax.h"

namespace stitch::import::hlo {

/// How many instructions the entry has once every call, fusion, loop and branch is written out in its place, or `most`
/// if there are more: known before any is, so that a few lines that double a few dozen times cost nothing.
std::int64_t expanded_instructions(const Module& module, std::int64_t most);

}  // namespace stitch::import::hlo
