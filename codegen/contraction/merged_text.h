#pragma once

#include "codegen/contraction/contraction_text.h"

// What kernels of several products with one operand (kernel/contraction/merged_contraction.h) print instead of the
// right operand's structure: one that has all members' elements by what it holds, so that the loop is the same for all.
//
//     struct Right {
//       static constexpr int depth = 768;
//       static constexpr bool whole_rows = true, whole_depth = true;
//       const bf16* data;
//       int rows;
//       s64 contracted0;  // stride that members differ in
//       …
//     };
namespace stitch::codegen {

/// The structure `Right` and `RightTile`.
void print_right_of_members(Writer& out, const kernel::ContractionProblem& problem, const TileText& tile);

/// The declaration of `right`, which is that of the tile's member.
void print_right_of_tile(Writer& out, const kernel::ContractionProblem& problem);

/// Where a member's right operand begins: "in1 + (…)".
std::string begin_of(const kernel::ContractionOperand& operand);

}  // namespace stitch::codegen
