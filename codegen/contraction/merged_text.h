#pragma once

#include "codegen/contraction/contraction_text.h"

// What kernels of several products with one operand (kernel/contraction/merged_contraction.h) print instead of the
// right operand's structure: one that has all members' elements (alike_operands.h), so that the loop is the same for
// all.
namespace stitch::codegen {

/// The structure `Right` and `RightTile`.
void print_right_of_members(Writer& out, const kernel::ContractionProblem& problem, const TileText& tile);

/// The declaration of `right`, which is that of the tile's member.
void print_right_of_tile(Writer& out, const kernel::ContractionProblem& problem);

}  // namespace stitch::codegen
