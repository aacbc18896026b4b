#pragma once

#include "base/result.h"
#include "graph/attributes.h"
#include "import/hlo/syntax.h"

namespace stitch::import::hlo {

/// The printer left a large literal out: "{...}".
bool is_elided(const Instruction& constant);

/// A constant's literal as data: numbers, "true", "inf", "-nan(0x7fc00001)", nested braces for arrays. Integers are
/// read exactly, floats rounded to the nearest value of their type. Errors: parse with line and column.
Result<graph::ConstantAttributes> parse_constant(const Instruction& constant);

}  // namespace stitch::import::hlo
