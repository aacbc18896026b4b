#include "profiler/verify/axis_boxes.h"

#include <algorithm>

#include "profiler/verify/element_ranges.h"

namespace stitch::profiler {
namespace {

/// Dimensions [begin, end) of a value with all the axes that they have a part of, and where among these the one is that
/// was asked for: in their joint index it counts steps of `inner`, `outer` times over.
struct JointDimensions {
  std::size_t begin = 0, end = 0;
  std::int64_t outer = 1, extent = 1, inner = 1;

  [[nodiscard]] std::int64_t elements() const { return outer * extent * inner; }
};

/// An axis that dimensions share stands in the first of them: they end where axes and dimensions have as many elements.
std::optional<JointDimensions> dimensions_of(const graph::Dims& dims, const kernel::AxisAnalysis& analysis,
                                             graph::Value value, int axis) {
  JointDimensions joint;
  bool found = false;
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    elements *= dims[d];
    for (const int part : analysis.of(value, d)) {
      (part == axis ? joint.extent : found ? joint.inner : joint.outer) *= analysis.axes()[part].extent;
      found = found || part == axis;
    }
    if (joint.elements() != elements) continue;
    joint.end = d + 1;
    if (found) return joint;
    joint = {d + 1, d + 1};
    elements = 1;
  }
  return std::nullopt;
}

}  // namespace

std::vector<graph::Interval> elements_of_digits(const kernel::AxisMapping& mapping, std::int64_t extent,
                                                const std::vector<bool>& run) {
  // Of an interleaved axis a tile has a part in every turn of its loop.
  const std::int64_t step = mapping.step(kernel::Level::grid), digits = std::ssize(run);
  const std::int64_t turns = mapping.interleaved ? mapping.at(kernel::Level::loop) : 1;
  std::vector<graph::Interval> ranges;
  for (std::int64_t at = 0; at < turns * digits; ++at) {
    const std::int64_t begin = at * step, end = std::min(begin + step, extent);
    if (!run[at % digits] || begin >= end) continue;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  }
  return ranges;
}

std::optional<std::vector<graph::Box>> boxes_of_axis(const graph::Graph& graph, const kernel::AxisAnalysis& analysis,
                                                     graph::Value value, int axis,
                                                     std::span<const graph::Interval> ranges, std::size_t most) {
  const graph::Box whole = graph::Box::whole(graph.type(value).dims);
  const auto joint = dimensions_of(whole.size, analysis, value, axis);
  if (!joint) return std::nullopt;
  const graph::Dims dims(whole.size.begin() + joint->begin, whole.size.begin() + joint->end);
  std::vector<graph::Box> boxes;
  for (std::int64_t o = 0; o < joint->outer; ++o) {
    for (const graph::Interval& range : ranges) {
      const std::int64_t from = o * joint->extent + range.begin, to = o * joint->extent + range.end;
      for (const graph::Box& part : boxes_of_range(dims, from * joint->inner, to * joint->inner)) {
        graph::Box& box = boxes.emplace_back(whole);
        std::ranges::copy(part.start, box.start.begin() + joint->begin);
        std::ranges::copy(part.size, box.size.begin() + joint->begin);
      }
      if (boxes.size() > most) return std::nullopt;
    }
  }
  return boxes;
}

}  // namespace stitch::profiler
