#include "tuning/plans/workspace.h"

#include <algorithm>
#include <numeric>

namespace stitch::tuning {

WorkspaceLayout lay_out_workspace(const std::vector<WorkspaceRequest>& requests) {
  constexpr std::int64_t alignment = 256;
  const auto rounded = [](std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  WorkspaceLayout layout;
  layout.offsets.assign(requests.size(), 0);
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<std::size_t> placed;  // ascending by offset
  for (const std::size_t request : order) {
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      const bool together =
          requests[other].first <= requests[request].last && requests[request].first <= requests[other].last;
      if (!together) continue;
      if (offset + rounded(requests[request].bytes) <= layout.offsets[other]) break;
      offset = std::max(offset, layout.offsets[other] + rounded(requests[other].bytes));
    }
    layout.offsets[request] = offset;
    layout.bytes = std::max(layout.bytes, offset + rounded(requests[request].bytes));
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset, [&](std::int64_t value, std::size_t other) {
      return value < layout.offsets[other];
    });
    placed.insert(at, request);
  }
  return layout;
}

}  // namespace stitch::tuning
