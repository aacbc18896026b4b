#pragma once

#include <vector>

#include "base/result.h"
#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// Second pass: gives buffers their stages. Every access of tile t of a buffer with S stages then goes to stage t mod
/// S. Still in order: what was right stays right, a tile is only no longer overwritten by the next one.
///
/// Expects: no buffer has stages yet; `stages` has an entry per buffer of the nest (1 for device memory). Guarantees:
/// accesses of one tile agree on its stage. Errors, kind constraint: a buffer that may not be pipelined (the message
/// names the obstacle); more stages than its loop has turns; shared buffers whose stages differ.
Status give_stages(TileNest& nest, const std::vector<int>& stages);

}  // namespace stitch::kernel::pipeline
