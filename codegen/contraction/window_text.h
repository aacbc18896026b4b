#pragma once

#include <string>

#include "kernel/contraction/contraction_operand.h"

namespace stitch::codegen {

/// A coordinate of a window's dimension, of (row, k): "row % 112 * 2 + k / 3 % 7 + -3".
std::string coordinate_of(const kernel::WindowDimension& window);

}  // namespace stitch::codegen
