#include "graph/passes/dim_groups.h"

#include <algorithm>
#include <iterator>

namespace stitch::graph {

std::optional<std::vector<DimGroup>> dim_groups(const Dims& from, const Dims& to) {
  if (element_count(from) == 0 || element_count(from) != element_count(to)) return std::nullopt;
  const int from_rank = from.size(), to_rank = to.size();
  std::vector<DimGroup> groups;
  int i = 0, j = 0;
  while (i < from_rank || j < to_rank) {
    DimGroup group{i, i, j, j};
    std::int64_t left = 1, right = 1;
    // Take at least one dimension, then from the side that lags, then extents of 1.
    do {
      if (i < from_rank && (left <= right || j == to_rank)) {
        left *= from[i++];
      } else {
        right *= to[j++];
      }
    } while (left != right);
    while (i < from_rank && from[i] == 1) ++i;
    while (j < to_rank && to[j] == 1) ++j;
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

Dims without_units(const Dims& dims) {
  Dims rest;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(rest), [](std::int64_t extent) { return extent != 1; });
  return rest;
}

}  // namespace stitch::graph
