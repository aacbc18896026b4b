#pragma once

#include <optional>

#include "graph/graph.h"

namespace stitch::kernel {

/// The kernel with its cumulative combinations over long lines taken tile by tile, so that many blocks work on a line
/// (reduce, then scan; Sengupta, Harris, Zhang and Owens 2007, "Scan primitives for GPU computing", §3.2): with the
/// elements x_t of tile t,
///
///     s_t = ⊕ x_t,   c_t = s_0 ⊕ … ⊕ s_{t−1},   y_t = scan of x_t with c_t in front of its first element.
///
/// The operand is read twice (or computed twice) and the result written once; the tiles' totals are a line of their
/// own. The order of combination follows from the shape alone. A single pass that looks back at the tiles before
/// (Merrill and Garland 2016) would read once, and combine floats in the order of arrival. Totals of narrow floats are
/// kept in what they accumulate in. Parameters, results and their order are the kernel's.
///
/// Nothing where no scan has a line that is long enough and that comes apart in equal tiles.
std::optional<graph::Graph> tile_scans(const graph::Graph& kernel);

}  // namespace stitch::kernel
