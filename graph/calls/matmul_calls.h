#pragma once

#include "graph/graph.h"

namespace stitch::graph {

/// Whether a BLAS computes a call's graph; or, where it is an attention or has a longer epilogue than any library's
/// call, each of its contractions by itself.
bool are_matmuls(const Graph& call);

}  // namespace stitch::graph
