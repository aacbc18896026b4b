#pragma once

#include <cstdint>

#include "graph/graph.h"

// Products that are added to one another. A kernel may multiply them into the same sums, one behind the other
// (kernel/contraction/summed_contraction.h), so that a term of the first passes through the additions of all:
//
//     x·A + y·B    of depths 16 and 64: 80 terms of one sum, not a sum of 16 and one of 64
namespace stitch::graph::reference {

/// Terms of an element of all other products that a dot is added to, and nothing but: through conversions of floating
/// types and layouts, as long as nobody reads what is in between.
std::int64_t terms_added_to(const Graph& graph, NodeId dot);

}  // namespace stitch::graph::reference
