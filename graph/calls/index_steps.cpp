#include "graph/calls/index_steps.h"

#include <algorithm>
#include <limits>

namespace stitch::graph {

std::optional<std::vector<SpaceStep>> common_steps(std::vector<Digits> walks) {
  std::vector<SpaceStep> steps;
  while (true) {
    std::int64_t extent = std::numeric_limits<std::int64_t>::max();
    bool ended = false;
    for (Digits& walk : walks) {
      while (!walk.empty() && walk.back().extent == 1) walk.pop_back();
      if (walk.empty()) {
        ended = true;
      } else {
        extent = std::min(extent, walk.back().extent);
      }
    }
    if (ended) break;
    SpaceStep step{extent, {}};
    for (Digits& walk : walks) {
      StridedView::Digit& last = walk.back();
      if (last.extent % extent != 0) return std::nullopt;
      step.strides.push_back(last.stride);
      last = {last.extent / extent, last.stride * extent};
    }
    steps.push_back(std::move(step));
  }
  std::ranges::reverse(steps);
  return steps;
}

std::vector<SpaceStep> collapsed_steps(const std::vector<SpaceStep>& steps) {
  std::vector<SpaceStep> joined;
  for (const SpaceStep& step : steps) {
    bool even = !joined.empty();
    for (std::size_t t = 0; even && t < step.strides.size(); ++t)
      even = joined.back().strides[t] == step.strides[t] * step.extent;
    if (even) {
      joined.back() = {joined.back().extent * step.extent, step.strides};
    } else {
      joined.push_back(step);
    }
  }
  return joined;
}

void append_digits(Digits& to, const Digits& digits) { to.insert(to.end(), digits.begin(), digits.end()); }

}  // namespace stitch::graph
