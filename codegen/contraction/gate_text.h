#pragma once

#include "codegen/contraction/contraction_text.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_problem.h"

// The right operands of a product with gates that are two tensors (kernel/contraction/gated_contraction.h), as one
// whose columns alternate between them.
namespace stitch::codegen {

/// The structure `Right` with its tile type.
void print_right_of_gates(Writer& out, const kernel::ContractionProblem& problem, const TileText& tile);
/// One of a block's tile, with how far it is from the one tensor to the other.
void print_right_of_both(Writer& out, const kernel::ContractionProblem& problem);

}  // namespace stitch::codegen
