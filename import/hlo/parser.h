#pragma once

#include <string_view>

#include "base/result.h"
#include "import/hlo/syntax.h"

namespace stitch::import::hlo {

class Scanner;

/// Reads a module. The result points into `text`, which must outlive it.
///
/// Guarantees: operands and called computations exist and come first, parameters are numbered 0 … n-1 without gaps,
/// every computation has a root, there is one entry, no extent or element count exceeds 2^40. Attributes are not
/// looked into, so unknown ones do no harm. Errors: parse, with line and column.
Result<Module> parse_module(std::string_view text);

/// A shape with its layout: "f32[4,8]{1,0:T(8,128)}", "(f32[2], s32[])", "token[]".
Result<Shape> parse_shape(Scanner& scanner);

}  // namespace stitch::import::hlo
