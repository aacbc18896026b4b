#pragma once

#include <optional>

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// The value, as wide as the kept dimensions, that `x` repeats along the dimensions in `reduced`; none when x varies
/// along one of them (or is not seen to be a broadcast).
std::optional<Value> along_kept(Rewriter& graph, Value x, const Dims& reduced);

/// A sum (`node` is a reduce of kind sum) with what is constant along the reduced dimensions taken out:
/// Σ(-(x·c)/d) = -(c·Σx)/d, to a small depth of products; 0 for the sum of deviations from their own mean.
Replacement factored_sum(Rewriter& graph, const Node& node);

}  // namespace stitch::graph
