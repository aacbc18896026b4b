#pragma once

#include <string>
#include <vector>

#include "kernel/pipeline/nest.h"

namespace stitch::kernel::pipeline {

/// Whether a buffer may have stages, and why not.
struct Applicability {
  int buffer = -1;
  std::string obstacle;  ///< empty: it may
  [[nodiscard]] bool applies() const { return obstacle.empty(); }
};

/// First pass (ALCOP §3.1): which buffers can be pipelined. A buffer can be if it
///  1. is filled by one copy, inside a loop that uses it in the same turn, and each turn fills it with another tile;
///  2. is filled without arithmetic between load and store, and to shared memory asynchronously, or else by way of
///     registers that hold a tile for a turn (staging.h);
///  3. shares its loop with all buffers of its scope that the block waits for together (shared memory): they have the
///     same positions of synchronisation, so all of them are pipelined or none is.
/// An entry per buffer that is not device memory. Expects a nest that no pass has touched.
std::vector<Applicability> applicability(const TileNest& nest);

/// How many turns the loop of a buffer's copy has: the most stages it may have. 0: no loop.
std::int64_t turns_of(const TileNest& nest, int buffer);

}  // namespace stitch::kernel::pipeline
