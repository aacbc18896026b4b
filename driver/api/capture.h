#pragma once

#include "driver/api/entry.h"

namespace stitch::driver {

/// Adds what a captured stream is given to its graph. Error: the capture was invalidated.
CUresult add_captured(Call& call, CUstream stream, Work work);
/// A node of a graph, behind `before`.
CUgraphNode add_node(Driver& driver, CUgraph graph, std::vector<CUgraphNode> before, Work work);
/// An event of a captured stream stands for what the stream depends on; waiting for it joins the capture.
CUresult wait_captured(Call& call, CUstream stream, CUevent event);

}  // namespace stitch::driver
