#pragma once

#include <cstdint>
#include <vector>

namespace stitch::tuning {

/// A buffer that lives from launch `first` to launch `last` of a plan, both included.
struct WorkspaceRequest {
  std::int64_t bytes = 0;
  int first = 0, last = 0;
};

struct WorkspaceLayout {
  std::vector<std::int64_t> offsets;  ///< per request, 256-byte aligned
  std::int64_t bytes = 0;             ///< of the whole workspace
};

/// Places buffers so that none overlaps another that lives at the same time, largest first, each at the lowest offset
/// that is free (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", §4.3, greedy by size).
WorkspaceLayout lay_out_workspace(const std::vector<WorkspaceRequest>& requests);

}  // namespace stitch::tuning
