#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Conditionals: a constant selector or equal branches leave one branch, in place of the conditional; results that no
/// one uses and operands that no branch uses are dropped; a result that every branch hands through is the operand.
///
/// Exact. Expects: regions already simplified.
Result<int> simplify_conditionals(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
