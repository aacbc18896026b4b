#include "profiler/verify/reference_parts.h"

#include <algorithm>

namespace stitch::profiler {
namespace {

using Boxes = std::vector<graph::Box>;

/// Halves a box along its first dimension that is longer than one. False when there is none.
bool halve(graph::Box& box, bool keeps_end) {
  const auto longest = std::ranges::find_if(box.size, [](std::int64_t size) { return size > 1; });
  if (longest == box.size.end()) return false;
  const std::int64_t half = *longest / 2;
  if (keeps_end) box.start[longest - box.size.begin()] += *longest - half;
  *longest = half;
  return true;
}

/// Half of what is wanted of a result. False when there is no less of it.
bool halve(Boxes& boxes) {
  if (boxes.size() <= 2) {
    bool any = false;
    for (std::size_t b = 0; b < boxes.size(); ++b) any = halve(boxes[b], b > 0) || any;
    return any;
  }
  Boxes kept;
  for (std::size_t b = 0; b + 1 < boxes.size(); b += 2) kept.push_back(std::move(boxes[b]));
  kept.push_back(std::move(boxes.back()));
  boxes = std::move(kept);
  return true;
}

}  // namespace

Result<std::vector<std::vector<graph::Tensor>>> reference_within(const graph::Graph& graph,
                                                                 std::span<const graph::Input> inputs,
                                                                 std::vector<Boxes>& wanted,
                                                                 const graph::EvaluateOptions& options) {
  constexpr int halvings = 3;  // an eighth each time: what does not fit is mostly far from it
  while (true) {
    auto reference = graph::evaluate_parts(graph, inputs, wanted, options);
    if (reference || reference.error().kind != ErrorKind::resource_exhausted) return reference;
    bool less = false;
    for (Boxes& boxes : wanted) {
      for (int i = 0; i < halvings; ++i) less = halve(boxes) || less;
    }
    if (!less) return reference.error().within("the reference");
  }
}

}  // namespace stitch::profiler
