#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Merges chains of reshape, transpose and broadcast and gives what is left one form:
///  - reshape of reshape, transpose of transpose, broadcast of broadcast are one; those that do nothing vanish;
///  - a broadcast that only adds dimensions of extent 1 is a reshape, and so is a transpose that moves only those;
///  - broadcasts stand outermost: reshape and transpose of a broadcast apply to the smaller operand where the mapping
///    allows it;
///  - an iota of several dimensions is a broadcast one-dimensional iota;
///  - a reshape of a constant is a constant.
///
/// Expects: nothing; finds most after drop_unit_dimensions, behind which it stands. Exact.
Result<int> merge_layout_chains(Graph& graph, const PassContext& context);

}  // namespace stitch::graph
