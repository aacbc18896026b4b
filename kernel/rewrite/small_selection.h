#pragma once

#include <optional>

#include "graph/graph.h"

namespace stitch::kernel {

/// The most elements of a line that are taken one after the other.
inline constexpr std::int64_t most_selected = 16;

/// The kernel with each small top-k as k arg-reductions, of which each takes what those before it have left:
///
///     values, places = sort(x, iota) {descending, count=2}
///         →  v0, i0 = arg-max x;  v1, i1 = arg-max (place = i0 ? -inf : x);  values = [v0, v1]
///
/// Whatever produces x, and what is computed of the results element by element or summed up along them (the weights of
/// a router), then is one group of one phase, with the line in registers: no sort has that, whose results are stored.
/// Where a line runs out of elements above the lowest value (-inf), the first that is left is taken; of what is never
/// negative that needs no look. For lines of any length, floats descending and integers, whose places alone go along.
/// Parameters, results and their order are the kernel's.
///
/// Nothing where there is no such sort of at most `most_selected` elements.
std::optional<graph::Graph> select_one_by_one(const graph::Graph& kernel);

}  // namespace stitch::kernel
