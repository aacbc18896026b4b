#pragma once

#include <functional>

#include "graph/calls/library_call.h"

namespace stitch::graph {

/// Which layouts a dot's call takes upon itself: of its operands, and of its result (transpositions in its epilogue).
struct CallLayouts {
  bool left = true, right = true, result = true;
  bool operator==(const CallLayouts&) const = default;
};

/// A matrix library steps evenly through one batch. A layout that takes several batches makes several calls of one
/// product (heads that lie within rows of several sequences: one for each head or sequence), where a kernel that writes
/// it out, before or behind, costs one launch and each element twice. Gives the call, as `make` makes it with some
/// layouts, that is quickest with such kernels; with all of them where none is quicker. `make`: with all layouts but
/// those that are refused.
LibraryCall with_quick_layouts(const Graph& graph, const std::function<LibraryCall(const CallLayouts&)>& make);

}  // namespace stitch::graph
