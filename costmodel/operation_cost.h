#pragma once

#include "kernel/structure/scalar_program.h"

namespace stitch::costmodel {

/// Cycles of issue that one scalar operation takes, as warp instructions (docs/cost-model.md has the sources).
double operation_cost(const kernel::Item& item);
/// Of them: what runs on the integer unit, which also compares, selects and converts floats, and has half the lanes of
/// the f32 one on most devices.
double integer_cost(const kernel::Item& item);

}  // namespace stitch::costmodel
